// The answers that ChatFormat finds again in a conversation: their places in the rendered text, and
// their tokens.
#include <algorithm>
#include <iterator>
#include <ranges>
#include <span>

#include "base/blanks.h"
#include "service/chat_format.h"

namespace kvik {

// Returns the tokens of the first n_bytes of the text, with those of known answers that end in them
// before a special token: otherwise the tokens after an answer would depend on it.
std::vector<TokenId> ChatFormat::tokenize_known(const Rendered& rendered, size_t n_bytes) const {
  size_t end = n_bytes;
  std::vector<std::vector<TokenId>> pieces;  // last one first
  for (const KnownRange& range : std::views::reverse(rendered.known)) {
    if (range.end > end) continue;
    auto rest = tokenize(rendered.text.substr(range.end, end - range.end));
    if (range.end < end && (rest.empty() || tokenizer_.kind(rest.front()) != TokenKind::kControl))
      continue;
    pieces.push_back(std::move(rest));
    pieces.push_back(rendered.conversation.answers[range.answer].answer->ids);
    end = range.begin;
  }
  std::vector<TokenId> ids = tokenize(rendered.text.substr(0, end));
  for (const auto& piece : std::views::reverse(pieces))
    std::ranges::copy(piece, std::back_inserter(ids));
  return ids;
}

bool ChatFormat::GenerationPrompt::ends(std::string_view prompt) const {
  if (!header.empty()) return prompt.ends_with(header + opening);
  return std::ranges::any_of(befores,
                             [&](const std::string& before) { return prompt.ends_with(before); });
}

// Returns the special token that ends the rendered conversation; empty: none does.
std::string ChatFormat::last_mark(const ChatRequest& request) const {
  const auto text = render(request);
  if (!text) return "";
  const std::vector<TokenId> ids = tokenize(*text);
  if (ids.empty() || tokenizer_.kind(ids.back()) != TokenKind::kControl) return "";
  std::string mark = tokenizer_.piece(ids.back(), Tokenizer::Special::kShow);
  return text->view().ends_with(mark) ? mark : "";
}

// Renders a conversation of one message, which is small. Returns nullopt if the prompt of an answer
// is not that of the conversation with something added.
std::optional<ChatFormat::GenerationPrompt> ChatFormat::generation_prompt(
    const ChatRequest& request) const {
  if (!request.add_generation_prompt || request.continue_final_message) return std::nullopt;
  ChatRequest probe{.messages = {text_message("user", "x")}};
  probe.kwargs = request.kwargs;
  probe.thinking = request.thinking;
  const auto with = render(probe);
  probe.add_generation_prompt = false;
  const auto without = render(probe);
  if (!with || !without || !with->view().starts_with(without->view())) return std::nullopt;
  const std::string_view added = with->view().substr(without->size());
  const size_t begin = added.find(trimmed(find_reasoning_marks(source_).begin_reasoning));
  const std::string_view header = added.substr(0, begin);
  GenerationPrompt prompt{.header = std::string(header),
                          .opening = std::string(added.substr(header.size()))};
  if (!added.empty()) return prompt;
  prompt.befores.push_back(last_mark(probe));
  const std::string id = "abcdefghi";  // as Mistral's templates demand
  probe.messages.push_back(
      {.role = "assistant",
       .parts = {ToolCall{.id = id, .name = "f", .arguments = Json{std::vector<Json::Field>()}}}});
  probe.messages.push_back(text_message("tool", "x"));
  probe.messages.back().tool_call_id = id;
  prompt.befores.push_back(last_mark(probe));
  std::erase(prompt.befores, "");
  return prompt;
}

// Returns the texts of the tokens that end an answer.
std::vector<std::string> ChatFormat::answer_ends(const AnswerSyntax& syntax) const {
  std::vector<std::string> ends;
  for (const auto ids : {tokenizer_.end_tokens(), std::span<const TokenId>(syntax.end_tokens)}) {
    for (const TokenId id : ids) {
      if (tokenizer_.kind(id) != TokenKind::kControl) continue;
      ends.push_back(tokenizer_.piece(id, Tokenizer::Special::kShow));
    }
  }
  std::erase(ends, "");
  return ends;
}

// Removes answers whose special tokens are not those of the message that the template wrote. The
// message may hold the marks of another one, and with a bias of logits a client can let the model
// generate the mark of another role. Counts the tokens of answers that differ from the message.
void ChatFormat::keep_tokenized_alike(Rendered& rendered, const AnswerSyntax& syntax) const {
  const bool has_channels = syntax.has_channels;
  // Templates leave this one out of harmony's headers.
  const std::vector<TokenId> constrain =
      has_channels ? special_ids("<|constrain|>") : std::vector<TokenId>();
  const auto special = [&](std::vector<TokenId> ids) {
    std::erase_if(ids, [&](TokenId id) {
      return tokenizer_.kind(id) != TokenKind::kControl || std::ranges::count(constrain, id) > 0;
    });
    return ids;
  };
  // All headers in an answer in harmony format must be the assistant's.
  const auto opens_other_role = [&](const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) text += tokenizer_.piece(id, Tokenizer::Special::kShow);
    const std::string_view view = text;
    for (size_t at = view.find(kMessageStart); at != view.npos;
         at = view.find(kMessageStart, at + 1)) {
      if (!view.substr(at).starts_with(kNextMessage)) return true;
    }
    return false;
  };
  std::erase_if(rendered.known, [&](const KnownRange& range) {
    const auto& [answer, has_more] = rendered.conversation.answers[range.answer];
    if (has_channels && opens_other_role(answer->ids)) return true;
    const auto plain = tokenize(rendered.text.substr(range.begin, range.end - range.begin));
    if (special(plain) != special(answer->ids)) return true;
    if (has_more || plain != answer->ids)
      rendered.n_restored += static_cast<uint32_t>(answer->ids.size());
    return false;
  });
}

// Renders the conversation with the reasoning that the client left out, but only that of answers
// which are found in the text. Most templates leave out the reasoning of earlier turns.
Result<ChatFormat::Rendered> ChatFormat::render_known(const ChatRequest& request,
                                                      const AnswerSyntax& syntax) const {
  const bool remembers = answers_ && answers_->is_on() && !request.owner.client.empty() &&
                         request.history_tokens.ids.empty();
  const auto opening = remembers ? generation_prompt(request) : std::nullopt;
  KnownConversation conversation;
  if (opening) conversation = find_answers(*answers_, request.owner, request.messages);
  for (int pass = 0;; ++pass) {
    ChatRequest complete = request;
    add_reasoning(complete.messages, conversation.answers);
    Rendered out{
        .request = {}, .text = {}, .conversation = conversation, .known = {}, .origin = {}};
    TRY_ASSIGN(out.request, adapted(std::move(complete), needs_));
    auto text = render_adapted(out.request);
    // gpt-oss's template refuses reasoning beside the text of a call.
    const bool has_more = std::ranges::any_of(conversation.answers, &KnownAnswer::has_more);
    if (!text && has_more) {
      for (KnownAnswer& known : conversation.answers)
        if (known.has_more) known = {};
      continue;
    }
    TRY_ASSIGN(out.text, std::move(text));
    // The generation prompt of some templates depends on the messages.
    if (opening && opening->ends(out.text.view())) {
      out.origin = AnswerOrigin{request.owner.client, conversation.key, opening->opening};
      const AnswerLayout layout{.header = opening->header,
                                .befores = opening->befores,
                                .has_channels = syntax.has_channels,
                                .ends = answer_ends(syntax),
                                .reasoning_marks = syntax.reasoning_marks};
      out.known = known_ranges(out.text, layout, request.messages, conversation.answers);
      keep_tokenized_alike(out, syntax);
    }
    std::vector<KnownAnswer*> completed, unused;
    for (size_t i = 0; i < conversation.answers.size(); ++i) {
      if (!conversation.answers[i].has_more) continue;
      completed.push_back(&conversation.answers[i]);
      if (std::ranges::count(out.known, i, &KnownRange::answer) == 0)
        unused.push_back(&conversation.answers[i]);
    }
    if (unused.empty()) return out;
    // A template could decide by one message what it renders of another.
    for (KnownAnswer* const known : pass == 0 ? unused : completed) *known = {};
  }
}

}  // namespace kvik
