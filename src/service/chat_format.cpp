#include "service/chat_format.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <ranges>
#include <span>
#include <variant>

#include "base/blanks.h"
#include "service/template_values.h"
#include "service/tools/forbid_calls.h"

namespace kvik {
namespace {

constexpr std::string_view kPlainTemplate =
    "{{ bos_token }}{% for message in messages %}{{ message.role | upper }}:\n"
    "{{ message.content }}{{ '\\n\\n' }}{% endfor %}{% if add_generation_prompt %}ASSISTANT:\n{% "
    "endif %}";

// Limits on the work of templates, relative to the size of their input: several times the maximum
// of all known templates. DeepSeek V3.2's template concatenates the tool definitions one by one,
// which copies each byte half as often as there are tools; the limits allow 500 tools.
constexpr uint64_t kStepsPerNode = 200;
constexpr uint64_t kStepsPerByte = 2;
constexpr uint64_t kBytesPerByte = 256;

// Returns limits that grow with the conversation, so a long conversation is not rejected and no
// template does unbounded work.
jinja::Limits limits_for(const ChatTemplate::Variables& variables) {
  jinja::Limits limits;
  for (const auto& [name, value] : variables) {
    const jinja::Extent extent = value.extent();
    limits.max_steps += extent.n_nodes * kStepsPerNode + extent.n_bytes * kStepsPerByte;
    limits.max_bytes += extent.n_bytes * kBytesPerByte;
  }
  return limits;
}

std::string name_of(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? tokenizer.piece(*id, Tokenizer::Special::kShow) : "";
}

int64_t local_now_s() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  return now + local.tm_gmtoff;
}

std::string source_of(const Tokenizer& tokenizer, const ChatFormatOptions& options) {
  if (!options.chat_template.empty()) return options.chat_template;
  const std::string_view own = tokenizer.chat_template();
  return std::string(own.empty() ? kPlainTemplate : own);
}

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), "messages");
}

// Replaces the arguments of tool calls that are objects with a JSON string, the form that OpenAI
// clients send and some templates (DeepSeek's) expect.
Result<jinja::Value> with_text_arguments(jinja::Runtime& runtime, const jinja::Value& value) {
  if (const jinja::List* list = value.list()) {
    jinja::List changed = *list;
    for (jinja::Value& item : changed.items) {
      TRY_ASSIGN(item, with_text_arguments(runtime, item));
    }
    return jinja::Value(std::move(changed));
  }
  if (!value.dict()) return value;
  jinja::Dict changed = *value.dict();
  for (auto& [key, item] : changed.entries) {
    const std::string_view name = key.text() ? key.text()->view() : std::string_view();
    if (name == "arguments" && item.dict()) {
      TRY_ASSIGN(jinja::Text text, jinja::to_json(runtime, item, {}));
      item = jinja::Value(std::move(text));
    } else if (name == "tool_calls" || name == "function") {
      TRY_ASSIGN(item, with_text_arguments(runtime, item));
    }
  }
  return jinja::Value(std::move(changed));
}

// The marker for continue_final_message, as in Hugging Face Transformers: it is appended to the
// last message and found again in the rendered text, so everything that the template writes after
// the message can be removed. The trailing blank reveals whether the template trims messages.
constexpr std::string_view kEndOfWords = "KVIK_THE_LAST_MESSAGE_ENDS_HERE ";

Result<jinja::Value> with_marked_end(const jinja::List& messages) {
  jinja::List marked = messages;
  const jinja::Dict* last = marked.items.back().dict();
  const jinja::Value* content = last ? last->find(std::string_view("content")) : nullptr;
  if (!content || !content->text()) {
    return refuse("continue_final_message needs a last message whose content is a string");
  }
  jinja::Text words = *content->text();
  words.append(kEndOfWords, jinja::Origin::kGiven);
  jinja::Dict message = *last;
  set_entry(message, jinja::make_text("content"), jinja::Value(std::move(words)));
  marked.items.back() = jinja::Value(std::move(message));
  return jinja::Value(std::move(marked));
}

// Returns the list with one item replaced, or with the item appended if `place` is its size.
jinja::Value with_item(const jinja::Value& list, size_t place, jinja::Value item) {
  jinja::List changed = *list.list();
  if (place < changed.items.size()) {
    changed.items[place] = std::move(item);
  } else {
    changed.items.push_back(std::move(item));
  }
  return jinja::Value(std::move(changed));
}

Result<jinja::Text> cut_at_marked_end(const jinja::Text& text) {
  constexpr std::string_view kTrimmed = kEndOfWords.substr(0, kEndOfWords.size() - 1);
  size_t end = text.view().rfind(kTrimmed);
  if (end == std::string_view::npos) {
    return refuse("the chat template omits the last message, so it cannot be continued");
  }
  if (!text.view().substr(end).starts_with(kEndOfWords)) {
    end = text.view().substr(0, end).find_last_not_of(" \t\n\r\f\v") + 1;
  }
  return text.substr(0, end);
}

// Returns the ranges of the text that the template wrote; special tokens are recognized only there.
std::vector<TextRange> ranges_of_template(const jinja::Text& text) {
  std::vector<TextRange> ranges;
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    if (run.origin == jinja::Origin::kTemplate) ranges.push_back({begin, run.end});
    begin = run.end;
  }
  return ranges;
}

}  // namespace

ChatFormat::ChatFormat(const Tokenizer& tokenizer, const ChatFormatOptions& options,
                       AnswerMemory* answers)
    : tokenizer_(tokenizer),
      answers_(answers),
      bos_(name_of(tokenizer, tokenizer.bos())),
      eos_(name_of(tokenizer, tokenizer.eos())),
      source_(source_of(tokenizer, options)),
      reasoning_budget_(options.reasoning_budget),
      template_(ChatTemplate::parse(source_)) {
  needs_.source = source_;
  if (template_) {  // before the format is set, so only what the template itself writes is seen
    needs_.traits = traits_of(
        source_, [this](const ChatRequest& request) { return render(request, given(request)); });
  }
  needs_.format = find_format_of_template(source_);
  if (!options.tool_format.empty()) {
    parses_calls_ = options.tool_format != "none";
    needs_.may_add_tools = parses_calls_;
    if (parses_calls_) needs_.format = find_tool_format(options.tool_format);
  }
}

ChatFormat::Given ChatFormat::given(const ChatRequest& request) const {
  MessageFormat needs{.reads_thinking = needs_.traits.reads_thinking};
  const bool is_written =
      needs_.traits.writes_calls || !needs_.format || !needs_.format->writes_history;
  if (!is_written) needs.writes_calls_as = needs_.format;
  return {.messages = template_list(request.messages, needs),
          .tools = request.tools.empty() ? jinja::None{} : template_list(request.tools)};
}

Result<jinja::Text> ChatFormat::render(const ChatRequest& request) const {
  TRY_ASSIGN(const ChatRequest changed, adapted(request, needs_));
  return render_adapted(changed);
}

Result<jinja::Text> ChatFormat::render_adapted(const ChatRequest& request) const {
  return render(request, given(request));
}

// Returns the special tokens that are contained in a mark.
std::vector<TokenId> ChatFormat::special_ids(std::string_view mark) const {
  const TextRange all{0, mark.size()};
  std::vector<TokenId> ids = tokenizer_.tokenize_chat(mark, std::span(&all, 1));
  std::erase_if(ids, [&](TokenId id) { return tokenizer_.kind(id) != TokenKind::kControl; });
  return ids;
}

// An effort becomes a number of tokens if the template has no variable for it, with the numbers
// that Gemini's API uses for these names.
std::optional<uint64_t> ChatFormat::reasoning_budget(const ReasoningOptions& requested) const {
  if (requested.budget_tokens) return requested.budget_tokens;
  if (requested.is_enabled == false || requested.effort == "none") return 0;
  if (!requested.effort) return reasoning_budget_;
  if (source_.contains("reasoning_effort")) return reasoning_budget_;
  if (requested.effort == "minimal" || requested.effort == "low") return 1024;
  if (requested.effort == "medium") return 8192;
  if (requested.effort == "high") return 24576;
  return reasoning_budget_;
}

AnswerSyntax ChatFormat::syntax_of(const ChatRequest& request) const {
  AnswerSyntax syntax;
  syntax.reasoning_marks = &find_reasoning_marks(source_);
  const bool has_channels = needs_.format && needs_.format->has_channels;
  syntax.has_channels = has_channels && !request.continue_final_message;
  if (!request.tools.empty() && parses_calls_) {
    if (needs_.format) syntax.calls.push_back(needs_.format);
    const bool in_words = needs_tools_in_system_prompt(request, needs_);
    if (syntax.calls.empty() || (in_words && needs_.format != &hermes_format())) {
      syntax.calls.insert(syntax.calls.begin(), &hermes_format());
    }
    syntax.call_syntax = &find_syntax(*syntax.calls.front(), source_);
    syntax.tools = std::make_shared<const ToolSchemas>(request.tools);
    syntax.reads_bare_calls = !syntax.has_channels;
  }
  std::vector<std::string_view> marks = {syntax.reasoning_marks->begin_reasoning,
                                         syntax.reasoning_marks->end_reasoning};
  for (const ToolFormat* format : syntax.calls) {
    std::ranges::copy(marks_of(*format), std::back_inserter(marks));
    if (format->end_token.empty()) continue;
    std::ranges::copy(special_ids(format->end_token), std::back_inserter(syntax.end_tokens));
  }
  if (request.forced) std::ranges::copy(marks_of(hermes_format()), std::back_inserter(marks));
  if (syntax.has_channels) std::ranges::copy(marks_of(*needs_.format), std::back_inserter(marks));
  for (const std::string_view mark : marks) {
    std::ranges::copy(special_ids(mark), std::back_inserter(syntax.shown_tokens));
  }
  std::ranges::sort(syntax.shown_tokens);
  if (request.forbids_calls) forbid_calls(tokenizer_, syntax);
  return syntax;
}

Result<jinja::Text> ChatFormat::render(const ChatRequest& request, const Given& given) const {
  if (!template_) {
    return fail(ErrorCode::kUnsupported,
                "the model's chat template does not parse: " + template_.error().message,
                "messages");
  }
  if (request.messages.empty()) return refuse("messages is empty");
  if (request.add_generation_prompt && request.continue_final_message) {
    return fail(ErrorCode::kInvalidArgument,
                "add_generation_prompt and continue_final_message exclude each other",
                "continue_final_message");
  }
  ChatTemplate::Variables variables = {{"documents", jinja::None{}}};  // as in Transformers
  for (const auto& [name, value] : request.kwargs) {
    variables.emplace_back(name, template_value(value));
  }
  jinja::Value messages = given.messages;
  if (request.continue_final_message) {
    TRY_ASSIGN(messages, with_marked_end(*messages.list()));
  }
  variables.emplace_back("messages", messages);
  variables.emplace_back("tools", given.tools);
  variables.emplace_back("add_generation_prompt", jinja::Value(request.add_generation_prompt));
  variables.emplace_back("continue_final_message", jinja::Value(request.continue_final_message));
  variables.emplace_back("bos_token", jinja::make_text(bos_));
  variables.emplace_back("eos_token", jinja::make_text(eos_));
  const jinja::Limits limits = limits_for(variables);
  const int64_t now_s = local_now_s();
  auto text = template_->render(variables, limits, now_s);
  if (!text && text.error().code == ErrorCode::kInvalidArgument) {
    jinja::Runtime runtime(limits, now_s);
    TRY_ASSIGN(messages, with_text_arguments(runtime, messages));
    variables.emplace_back("messages", std::move(messages));  // the last variable of a name is used
    if (auto second = template_->render(variables, limits, now_s)) text = std::move(second);
  }
  if (!text) {
    return fail(ErrorCode::kInvalidArgument, std::move(text.error().message), "messages");
  }
  return request.continue_final_message ? cut_at_marked_end(*text) : std::move(*text);
}

// Finds the position of each cache mark in the rendered text: the text is rendered again with
// something inserted at the mark, and the first byte that differs is the position. A pin only
// affects the eviction order of pages, so if a token spans the position, either side is acceptable.
std::vector<Pin> ChatFormat::pins_of(const Rendered& rendered) const {
  const ChatRequest& request = rendered.request;
  const jinja::Text& text = rendered.text;
  std::vector<Pin> pins;
  const Given plain = given(request);
  const auto pin = [&](const Given& marked, Duration ttl) {
    const auto other = render(request, marked);
    if (!other) return;
    const auto end = std::ranges::mismatch(text.view(), other->view()).in1;
    const auto n_bytes = static_cast<size_t>(end - text.view().begin());
    if (n_bytes == 0) return;
    const auto n_tokens = static_cast<uint32_t>(tokenize_known(rendered, n_bytes).size());
    pins.push_back({n_tokens, ttl});
  };
  for (size_t i = 0; i < request.messages.size(); ++i) {
    for (size_t j = 0; j < request.messages[i].parts.size(); ++j) {
      const auto* part = std::get_if<TextPart>(&request.messages[i].parts[j]);
      if (!part || !part->pin_ttl) continue;
      Message marked = request.messages[i];
      // No template searches for this byte or trims it.
      std::get<TextPart>(marked.parts[j]).text += '\x01';
      pin({with_item(plain.messages, i, template_value(marked)), plain.tools}, *part->pin_ttl);
    }
  }
  if (request.tools_pin_ttl && !request.tools.empty()) {
    const size_t n_tools = request.tools.size();
    pin({plain.messages, with_item(plain.tools, n_tools, template_value(request.tools.back()))},
        *request.tools_pin_ttl);
  }
  return pins;
}

// Returns nullopt if the template has no generation prompt, or if it does not begin with a special
// token: an ordinary token might merge with the text before it.
std::optional<uint32_t> ChatFormat::last_message_end(const ChatRequest& request,
                                                     const jinja::Text& text,
                                                     size_t n_tokens) const {
  if (!request.add_generation_prompt) return std::nullopt;
  ChatRequest without = request;
  without.add_generation_prompt = false;
  const auto messages = render_adapted(without);
  if (!messages || !text.view().starts_with(messages->view())) return std::nullopt;
  const size_t n_bytes = messages->view().size();
  const auto rest = tokenize(text.substr(n_bytes, text.size() - n_bytes));
  if (rest.empty() || rest.size() >= n_tokens) return std::nullopt;
  if (tokenizer_.kind(rest.front()) != TokenKind::kControl) return std::nullopt;
  return static_cast<uint32_t>(n_tokens - rest.size());
}

std::vector<TokenId> ChatFormat::tokenize(const jinja::Text& text) const {
  return tokenizer_.tokenize_chat(text.view(), ranges_of_template(text));
}

// Returns the stored tokens followed by the tokens of the remaining text. Returns nullopt if the
// text does not begin with the stored text, or if the rest does not begin with a special token; in
// that case its tokenization depends on the text before it.
std::optional<std::vector<TokenId>> ChatFormat::tokenize_after(const HistoryTokens& history_tokens,
                                                               const jinja::Text& text) const {
  const size_t n_bytes = history_tokens.text.size();
  if (n_bytes == 0 || !text.view().starts_with(history_tokens.text)) return std::nullopt;
  std::vector<TokenId> ids = history_tokens.ids;
  if (n_bytes == text.size()) return ids;
  const auto rest = tokenize(text.substr(n_bytes, text.size() - n_bytes));
  if (rest.empty() || tokenizer_.kind(rest.front()) != TokenKind::kControl) return std::nullopt;
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

Result<ChatPrompt> ChatFormat::prompt(const ChatRequest& given_request,
                                      MessageEnds message_ends) const {
  AnswerSyntax syntax = syntax_of(given_request);
  TRY_ASSIGN(Rendered rendered, render_known(given_request, syntax));
  const ChatRequest& request = rendered.request;
  const jinja::Text& text = rendered.text;
  const std::string_view end = text.view().substr(0, text.view().find_last_not_of("\n ") + 1);
  const bool is_templates = std::ranges::any_of(
      ranges_of_template(text),
      [&](const TextRange& range) { return range.begin < end.size() && end.size() <= range.end; });
  std::string_view opening_mark = syntax.reasoning_marks->begin_reasoning;
  opening_mark = opening_mark.substr(0, opening_mark.find_last_not_of("\n ") + 1);
  const bool is_open =
      end.ends_with(opening_mark) && (is_templates || request.continue_final_message);
  std::string_view closing = syntax.reasoning_marks->end_reasoning;
  const bool is_closed = end.ends_with(closing) && is_templates;
  const bool is_unwanted = given_request.thinking.is_enabled == false ||
                           given_request.thinking.effort == "none" ||
                           given_request.thinking.budget_tokens == 0;
  syntax.may_reason = source_.contains(closing) && !is_open && !is_closed && !is_unwanted &&
                      request.add_generation_prompt && !request.continue_final_message;
  auto ids = tokenize_after(request.history_tokens, text);
  ChatPrompt prompt{.ids = ids ? std::move(*ids) : tokenize_known(rendered, text.size()),
                    .answer_begin = is_open ? AnswerBegin::kReasoning : AnswerBegin::kText,
                    .answer_syntax = std::move(syntax),
                    .text = text.bytes(),
                    .pins = pins_of(rendered),
                    .reasoning_budget = reasoning_budget(given_request.thinking),
                    .n_restored = rendered.n_restored,
                    .origin = rendered.origin};
  if (message_ends == MessageEnds::kLast) {
    prompt.last_message_end = last_message_end(request, text, prompt.ids.size());
  }
  return prompt;
}

}  // namespace kvik
