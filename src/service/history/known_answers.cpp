#include "service/history/known_answers.h"

#include <algorithm>
#include <variant>

#include "base/blanks.h"

namespace kvik {
namespace {

std::string reasoning_of(const Message& message) {
  std::string text;
  for (const MessagePart& part : message.parts) {
    if (const auto* reasoning = std::get_if<ReasoningPart>(&part)) text += reasoning->text;
  }
  return text;
}

bool is_answer(const Message& message) { return message.role == "assistant"; }

// The bytes that the template wrote.
class TemplateBytes {
 public:
  explicit TemplateBytes(const jinja::Text& text) : text_(text) {}

  // Returns the first place of `wanted` in [begin, limit) whose first byte the template wrote; npos
  // if there is none.
  size_t find(std::string_view wanted, size_t begin, size_t limit) const {
    const std::string_view view = text_.view().substr(0, limit);
    for (size_t at = view.find(wanted, begin); at != view.npos; at = view.find(wanted, at + 1)) {
      if (is_of_template(at)) return at;
    }
    return std::string_view::npos;
  }

 private:
  bool is_of_template(size_t at) const {
    const auto run =
        std::ranges::upper_bound(text_.runs(), at, {}, [](const auto& each) { return each.end; });
    return run != text_.runs().end() && run->origin == jinja::Origin::kTemplate;
  }

  const jinja::Text& text_;
};

// Removes blanks and then the text from the beginning of `rest`. Returns whether it was there.
bool take(std::string_view& rest, std::string_view text) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

// Returns whether the text is the rest of an answer after its opening: the reasoning between its
// marks, the content, and then calls, if it has some.
bool is_rest_of(std::string_view rest, const RememberedAnswer& answer, const Message& message,
                const ReasoningMarks& marks) {
  const std::string_view begin_mark = trimmed(marks.begin_reasoning);
  const std::string_view end_mark = trimmed(marks.end_reasoning);
  const std::string_view reasoning = trimmed(answer.reasoning);
  const std::string text = text_of(message);
  std::string_view after = rest;
  const bool has_marks = take(after, begin_mark) || take(after, end_mark);
  if (reasoning.empty() && has_marks) return false;
  if (!reasoning.empty()) {
    const bool is_open = trimmed(answer.opening).ends_with(begin_mark);
    if (!is_open && !take(rest, begin_mark)) return false;
    if (!take(rest, reasoning) || !take(rest, end_mark)) return false;
  }
  if (!take(rest, trimmed(text))) return false;
  const bool has_calls = !calls_of(message).empty() ||
                         std::ranges::count(message.further, "tool_calls", &Json::Field::name) > 0;
  return has_calls || trimmed(rest).empty();
}

// Returns the longest piece of the text that templates write unchanged: letters, digits, spaces.
std::string_view plain_piece(std::string_view text) {
  std::string_view longest;
  for (size_t begin = 0; begin < text.size();) {
    const auto is_plain = [](char c) {
      return c == ' ' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    };
    const auto end = std::ranges::find_if_not(text.substr(begin), is_plain) - text.begin();
    const std::string_view piece = text.substr(begin, static_cast<size_t>(end) - begin);
    if (piece.size() > longest.size()) longest = piece;
    begin = static_cast<size_t>(end) + 1;
  }
  return trimmed(longest);
}

// Returns whether this text contains the texts of the messages before the next answer, in their
// order. Templates may write results of tools as JSON strings.
bool holds_messages(std::string_view text, std::span<const Message> messages) {
  for (const Message& message : messages) {
    if (is_answer(message)) break;
    const std::string whole = text_of(message);
    std::string_view wanted = trimmed(whole);
    if (!text.contains(wanted)) wanted = plain_piece(wanted);
    const size_t at = text.find(wanted);
    if (at == text.npos) return false;
    text.remove_prefix(at + wanted.size());
  }
  return true;
}

}  // namespace

KnownConversation find_answers(AnswerMemory& memory, const AnswerOwner& owner,
                               std::span<const Message> messages) {
  KnownConversation conversation{.answers = {}, .key = conversation_key(owner)};
  for (const Message& message : messages) {
    conversation.key = with_message(conversation.key, message);
    if (!is_answer(message)) continue;
    KnownAnswer known{.answer = memory.find(conversation.key)};
    const std::string own = known.answer ? known.answer->reasoning : "";
    const std::string given = reasoning_of(message);
    const bool has_given = !trimmed(given).empty();
    if (has_given && trimmed(given) != trimmed(own)) known.answer = nullptr;
    known.has_more = !has_given && !trimmed(own).empty();
    conversation.answers.push_back(std::move(known));
  }
  return conversation;
}

void add_reasoning(std::span<Message> messages, const KnownAnswers& answers) {
  auto known = answers.begin();
  for (Message& message : messages) {
    if (!is_answer(message) || known == answers.end()) continue;
    const auto& [answer, has_more] = *known++;
    if (has_more) message.parts.insert(message.parts.begin(), ReasoningPart{answer->reasoning});
  }
}

std::vector<KnownRange> known_ranges(const jinja::Text& text, const AnswerLayout& layout,
                                     std::span<const Message> messages,
                                     const KnownAnswers& answers) {
  const TemplateBytes written(text);
  const std::string_view header = layout.header;
  std::vector<size_t> headers;
  if (header.empty()) return {};
  for (size_t at = written.find(header, 0, text.size()); at != std::string_view::npos;
       at = written.find(header, at + header.size(), text.size())) {
    headers.push_back(at);
  }
  if (headers.size() != answers.size() + 1) return {};
  std::vector<KnownRange> ranges;
  size_t i = 0;
  for (size_t at = 0; at < messages.size(); ++at) {
    if (!is_answer(messages[at])) continue;
    const size_t index = i++;
    const auto& answer = answers[index].answer;
    if (!answer) continue;
    const size_t header_end = headers[index] + header.size(), limit = headers[index + 1];
    size_t end = limit;
    for (const std::string& mark : layout.ends)
      end = std::min(end, written.find(mark, header_end, limit));
    if (end == limit) continue;  // no mark
    const std::string_view message = text.view().substr(header_end, end - header_end);
    if (!message.starts_with(answer->opening)) continue;
    const size_t n_opening = answer->opening.size();
    const bool is_it =
        is_rest_of(message.substr(n_opening), *answer, messages[at], *layout.reasoning_marks) &&
        holds_messages(text.view().substr(end, limit - end), messages.subspan(at + 1));
    if (is_it) ranges.push_back({header_end + n_opening, end, index});
  }
  return ranges;
}

}  // namespace kvik
