#include "service/history/known_answers.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "base/blanks.h"
#include "service/answer_syntax.h"

namespace kvik {
namespace {

std::string reasoning_of(const Message& message) {
  std::string text;
  for (const MessagePart& part : message.parts) {
    if (const auto* reasoning = std::get_if<ReasoningPart>(&part)) text += reasoning->text;
  }
  return text;
}

bool has_tool_calls(const Message& message) {
  return !calls_of(message).empty() ||
         std::ranges::count(message.further, "tool_calls", &Json::Field::name) > 0;
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
  return has_tool_calls(message) || trimmed(rest).empty();
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

// The place of an answer in a rendered conversation, in bytes.
struct AnswerPlace {
  size_t begin = 0, end = 0;
  size_t limit = 0;  // where the next answer begins
};
using AnswerPlaces = std::vector<std::optional<AnswerPlace>>;  // one per answer; empty: unknown

// Returns the first mark that the template wrote in a range, npos if there is none.
size_t find_any(const TemplateBytes& written, std::span<const std::string> marks, size_t begin,
                size_t limit) {
  size_t first = std::string_view::npos;
  for (const std::string& mark : marks)
    first = std::min(first, written.find(mark, begin, std::min(first, limit)));
  return first;
}

AnswerPlaces places_after_headers(const TemplateBytes& written, size_t n_bytes,
                                  const AnswerLayout& layout, size_t n_answers) {
  std::vector<size_t> headers;
  for (size_t at = written.find(layout.header, 0, n_bytes); at != std::string_view::npos;
       at = written.find(layout.header, at + layout.header.size(), n_bytes)) {
    headers.push_back(at);
  }
  if (headers.size() != n_answers + 1) return {};
  AnswerPlaces places(n_answers);
  for (size_t i = 0; i < n_answers; ++i) {
    const size_t begin = headers[i] + layout.header.size(), limit = headers[i + 1];
    const size_t end = find_any(written, layout.ends, begin, limit);
    if (end != std::string_view::npos) places[i] = AnswerPlace{begin, end, limit};
  }
  return places;
}

AnswerPlaces places_before_ends(const TemplateBytes& written, size_t n_bytes,
                                const AnswerLayout& layout, size_t n_answers) {
  AnswerPlaces places;
  size_t before = 0;  // end of the answer before
  for (size_t end = find_any(written, layout.ends, 0, n_bytes); end != std::string_view::npos;
       end = find_any(written, layout.ends, end + 1, n_bytes)) {
    size_t begin = 0;
    for (const std::string& mark : layout.befores) {
      for (size_t at = written.find(mark, before, end); at != std::string_view::npos;
           at = written.find(mark, at + 1, end)) {
        begin = std::max(begin, at + mark.size());
      }
    }
    if (!places.empty() && places.back()) places.back()->limit = begin > 0 ? begin : end;
    places.emplace_back();
    if (begin > 0) places.back() = AnswerPlace{begin, end, n_bytes};
    before = end;
  }
  return places.size() == n_answers ? places : AnswerPlaces();
}

AnswerPlaces places_of_channels(const jinja::Text& text, const TemplateBytes& written,
                                size_t n_answers) {
  static const std::vector<std::string> kEnds = {std::string(kMessageEnd), "<|call|>",
                                                 "<|return|>"};
  const size_t n_bytes = text.size();
  AnswerPlaces places;
  bool is_in_answer = false;
  for (size_t at = written.find(kMessageStart, 0, n_bytes); at != std::string_view::npos;) {
    const size_t next = std::min(written.find(kMessageStart, at + 1, n_bytes), n_bytes);
    const bool is_answers = text.view().substr(at).starts_with(kNextMessage);
    const size_t begin = at + kNextMessage.size();  // of an answer
    if (is_answers && !is_in_answer) {
      if (!places.empty() && places.back()) places.back()->limit = at;
      places.emplace_back(AnswerPlace{begin, 0, n_bytes});
    }
    if (is_answers) {
      const size_t end = find_any(written, kEnds, begin, next);
      places.back()->end = end == std::string_view::npos ? n_bytes : end;
    }
    is_in_answer = is_answers;
    at = next == n_bytes ? std::string_view::npos : next;
  }
  if (places.size() != n_answers + 1) return {};  // the last one is the generation prompt
  places.pop_back();
  return places;
}

// Returns whether the text is an answer in harmony format, without the header of its first message:
// the reasoning on the channel analysis, the content on others, and calls if it has some.
bool is_rest_of_channels(std::string_view rest, const RememberedAnswer& answer,
                         const Message& message, bool has_calls) {
  const std::string next = std::string(kMessageEnd) + std::string(kNextMessage);
  std::string reasoning, content;
  bool calls = false;
  while (true) {
    const size_t begin = rest.find(kMessageBody);
    if (begin == rest.npos) return false;
    const std::string_view header = rest.substr(0, begin);
    rest.remove_prefix(begin + kMessageBody.size());
    const size_t end = rest.find(next);
    const std::string_view body = rest.substr(0, end);
    const bool is_call = header.contains(" to=");
    calls = calls || is_call;
    const bool is_reasoning = header.contains("analysis") && !is_call;
    if (is_reasoning && !reasoning.empty()) reasoning += '\n';
    if (!is_call) (is_reasoning ? reasoning : content) += body;
    if (end == rest.npos) break;
    rest.remove_prefix(end + next.size());
  }
  return calls == has_calls && trimmed(reasoning) == trimmed(answer.reasoning) &&
         trimmed(content) == trimmed(text_of(message));
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
  AnswerPlaces places;
  if (layout.has_channels)
    places = places_of_channels(text, written, answers.size());
  else if (!layout.header.empty())
    places = places_after_headers(written, text.size(), layout, answers.size());
  else
    places = places_before_ends(written, text.size(), layout, answers.size());
  if (places.empty()) return {};
  std::vector<KnownRange> ranges;
  size_t i = 0;
  for (size_t at = 0; at < messages.size(); ++at) {
    if (!is_answer(messages[at])) continue;
    const size_t index = i++;
    const auto& answer = answers[index].answer;
    if (!answer || !places[index]) continue;
    const auto& [begin, end, limit] = *places[index];
    std::string_view rest = text.view().substr(begin, end - begin);
    if (!rest.starts_with(answer->opening)) continue;
    rest.remove_prefix(answer->opening.size());
    const bool is_it =
        (layout.has_channels
             ? is_rest_of_channels(rest, *answer, messages[at], has_tool_calls(messages[at]))
             : is_rest_of(rest, *answer, messages[at], *layout.reasoning_marks)) &&
        holds_messages(text.view().substr(end, limit - end), messages.subspan(at + 1));
    if (is_it) ranges.push_back({begin + answer->opening.size(), end, index});
  }
  return ranges;
}

}  // namespace kvik
