#include "service/tools/call_reader.h"

#include <algorithm>

#include "base/blanks.h"

namespace kvik {
namespace {

using Kind = CallStep::Kind;

constexpr size_t kMaxWord = 256;
constexpr size_t kMaxMembers = 8;  // members of a JSON call before its arguments
constexpr std::string_view kNameKeys[] = {"name", "tool_name"};
constexpr std::string_view kArgumentKeys[] = {"arguments", "parameters"};
constexpr std::string_view kIdKeys[] = {"id", "tool_call_id"};

bool is_one_of(std::string_view key, std::span<const std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

// "functions.NAME:0" → NAME.
std::string without_number(std::string_view name) {
  constexpr std::string_view kSpace = "functions.";
  if (name.starts_with(kSpace)) name.remove_prefix(kSpace.size());
  const size_t colon = name.rfind(':');
  if (colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos) {
    name = name.substr(0, colon);
  }
  return std::string(name);
}

}  // namespace

CallReader::CallReader(const ToolFormat& format, const ToolSchemas& schemas,
                       const CallSteps::Begin& opening)
    : format_(format), schemas_(schemas), step_(opening.step), text_(opening.mark) {}

CallReader::CallReader(const ToolFormat& format, const ToolSchemas& schemas, std::string header,
                       std::string name)
    : format_(format), schemas_(schemas), text_(std::move(header)), name_(std::move(name)) {}

CallReader::State CallReader::push(char byte, std::vector<AnswerPart>& calls) {
  text_ += byte;
  // The loop terminates: each step of the format can pass a byte on, or read held bytes again, at
  // most once in a row.
  for (;;) {
    const Outcome outcome = take(byte);
    open_if_unambiguous();
    if (outcome == Outcome::kBroken) {
      const bool has_sent = is_open_ || elements_;
      n_again_ = has_sent ? text_.size() - n_sent_ : std::max(held_.size(), size_t{1});
      return State::kBroken;
    }
    const State state = settle(calls);
    if (state != State::kMore || outcome == Outcome::kTaken) return state;
  }
}

// Executes the steps that need no input.
CallReader::State CallReader::settle(std::vector<AnswerPart>& calls) {
  while (step().kind == Kind::kCall) {
    if (arguments_.empty()) arguments_ = "{}";
    if (has_parameters_) arguments_ += '}';
    is_open_ = true;
    emit(calls);
    has_called_ = true;
    ++n_whole_;
    text_.clear();
    begin_call();
    go(0);
  }
  return step().kind == Kind::kEnd ? State::kEnded : State::kMore;
}

bool CallReader::is_between_calls() const {
  const bool is_mark =
      step().kind == Kind::kBlanks || step().kind == Kind::kMark || step().kind == Kind::kOneOf;
  return has_called_ && is_mark && name_.empty() && !is_open_;
}

void CallReader::begin_call() {
  name_.clear();
  id_.clear();
  arguments_.clear();
  elements_.reset();
  key_.reset();
  has_parameters_ = is_open_ = is_emitted_ = is_parameter_open_ = false;
  n_emitted_bytes_ = n_sent_ = 0;
}

bool CallReader::has_whole_arguments() const {
  if (!value_ || step().kind != Kind::kJsonCall) return false;
  const ValueReader::Member* member = find_member(kArgumentKeys);
  return member && member->value_end > 0;
}

void CallReader::emit(std::vector<AnswerPart>& parts) {
  if (!is_open_) return;
  if (is_parameter_open_ && is_text_value_) put_text_value(known_value_end());
  const std::string_view all = arguments_so_far();
  const std::string_view more = all.substr(n_emitted_bytes_);
  using enum AnswerPart::Kind;
  if (!is_emitted_) {
    append(parts, {.kind = kCall, .text = std::string(more), .name = name_, .id = id_});
  } else {
    append(parts, {.kind = kArguments, .text = std::string(more)});
  }
  is_emitted_ = true;
  n_emitted_bytes_ = all.size();
}

std::string_view CallReader::arguments_so_far() const {
  if (elements_) return elements_->json();
  if (!value_) return arguments_;
  if (step().kind == Kind::kArguments) return value_->json();
  const ValueReader::Member* member = find_member(kArgumentKeys);
  if (!member) return {};
  const std::string_view json = value_->json();
  const size_t end = member->value_end > 0 ? member->value_end : json.size();
  return json.substr(member->value_begin, end - member->value_begin);
}

// Opens the call at the first byte that makes it unambiguous.
void CallReader::open_if_unambiguous() {
  if (elements_ && elements_->json().size() > 1) is_open_ = true;
  if (is_open_ || !value_) return;
  if (step().kind == Kind::kArguments) {
    is_open_ = value_->is_object() && value_->json().size() > 1;
  } else if (value_->json().ends_with('{') && value_->members().size() <= kMaxMembers) {
    open_json_call();
  }
}

// Returns the first member with one of these keys whose value has begun.
const ValueReader::Member* CallReader::find_member(std::span<const std::string_view> keys) const {
  const auto& members = value_->members();
  const auto found = std::ranges::find_if(members, [&](const ValueReader::Member& member) {
    return member.value_begin > 0 && is_one_of(value_->key_of(member), keys);
  });
  return found == members.end() ? nullptr : &*found;
}

void CallReader::open_json_call() {
  const auto text_of = [&](const ValueReader::Member* member) {
    const bool is_text =
        member && member->value_end > 0 && value_->value_of(*member).starts_with('"');
    return is_text ? unquoted(value_->value_of(*member)) : std::string();
  };
  const ValueReader::Member* arguments = find_member(kArgumentKeys);
  if (!arguments || !arguments_so_far().starts_with('{')) return;
  std::string name = text_of(find_member(kNameKeys));
  const bool is_name = !name.empty() && name.size() <= kMaxWord;
  if (!is_name || (!step().is_sure && !schemas_.has(name))) return;
  name_ = std::move(name);
  id_ = text_of(find_member(kIdKeys));
  is_open_ = true;
}

CallReader::Outcome CallReader::take(char byte) {
  switch (step().kind) {
    case Kind::kBlanks:
      if (is_blank(byte)) return Outcome::kTaken;
      go(step().to);
      return Outcome::kPassed;
    case Kind::kMark:
      return take_mark(byte);
    case Kind::kOneOf:
      return take_way(byte);
    case Kind::kName:
    case Kind::kId:
    case Kind::kKey:
      return take_word(byte);
    case Kind::kText:
      return take_text();
    case Kind::kArguments:
    case Kind::kJsonCall:
      return take_value(byte);
    case Kind::kElements:
      return take_elements(byte);
    case Kind::kCall:
    case Kind::kEnd:
      break;
  }
  return Outcome::kBroken;
}

CallReader::Outcome CallReader::take_mark(char byte) {
  held_ += byte;
  if (!step().mark.starts_with(held_)) return Outcome::kBroken;
  if (held_.size() < step().mark.size()) return Outcome::kTaken;
  held_.clear();
  value_begin_ = text_.size();
  go(step().to);
  return Outcome::kTaken;
}

CallReader::Outcome CallReader::take_way(char byte) {
  held_ += byte;
  bool may_come = false;
  for (const CallStep::Way& way : step().ways) {
    if (way.mark.empty() || !way.mark.starts_with(held_)) continue;
    if (held_.size() == way.mark.size()) {
      if (end_parameter()) n_sent_ = text_.size() - way.mark.size();
      held_.clear();
      value_begin_ = text_.size();
      step_ = way.to;
      return Outcome::kTaken;
    }
    may_come = true;
  }
  if (may_come) return Outcome::kTaken;
  if (step().otherwise == CallStep::kNoStep) return Outcome::kBroken;
  step_ = step().otherwise;
  // continues the value; none of the held bytes except this one can end it
  if (step().kind == Kind::kText) {
    held_.clear();
    return Outcome::kPassed;
  }
  const std::string again = taken(held_);
  for (const char each : again) {
    if (take(each) != Outcome::kTaken) return Outcome::kBroken;
  }
  return Outcome::kTaken;
}

CallReader::Outcome CallReader::take_word(char byte) {
  held_ += byte;
  bool may_hold = false;  // the byte is part of a mark
  for (const CallStep::Way& way : step().ways) {
    if (way.mark.empty()) continue;
    may_hold = may_hold || way.mark.contains(byte);
    if (!held_.ends_with(way.mark)) continue;
    std::string word = held_.substr(0, held_.size() - way.mark.size());
    if (!end_word(std::move(word))) return Outcome::kBroken;
    held_.clear();
    value_begin_ = text_.size();
    step_ = way.to;
    return Outcome::kTaken;
  }
  const bool is_control = static_cast<unsigned char>(byte) < 0x20;
  const bool is_bad = (is_control || (byte == ' ' && step().kind != Kind::kKey)) && !may_hold;
  if (is_bad || held_.size() > kMaxWord) return Outcome::kBroken;
  return Outcome::kTaken;
}

bool CallReader::end_word(std::string word) {
  if (step().kind == Kind::kKey) {
    if (word.empty()) return false;
    key_ = std::move(word);
    return true;
  }
  word = trimmed(word);
  if (step().kind == Kind::kId) {
    id_ = std::move(word);
    return true;
  }
  name_ = step().is_numbered ? without_number(word) : std::move(word);
  return !name_.empty() && name_.find_first_of("<>{}[]()\"'` \n") == name_.npos;
}

// The mark may also occur in the value; the text after it decides.
CallReader::Outcome CallReader::take_text() {
  if (key_ && !is_parameter_open_) open_parameter();
  if (value_end_ <= value_begin_) value_step_ = &step();
  const std::string_view value = std::string_view(text_).substr(value_begin_);
  const CallStep::Way& other_end = step().ways[0];
  if (value.ends_with(step().mark)) {
    value_end_ = text_.size() - step().mark.size();
    if (!step().quote.empty() && first_quote_end_ == 0) first_quote_end_ = value_end_;
    go(step().to);
  } else if (first_quote_end_ > 0 && value.ends_with(other_end.mark)) {
    value_end_ = text_.size() - other_end.mark.size();
    go(other_end.to);
  }
  return Outcome::kTaken;
}

// Writes the key. A value that must be a string follows as it arrives; any other follows when it
// ends.
void CallReader::open_parameter() {
  is_open_ = is_parameter_open_ = true;
  arguments_ += has_parameters_ ? ", " : "{";
  arguments_ += json_string(*key_);
  arguments_ += ": ";
  has_parameters_ = true;
  const CallStep::Style style = step().style;
  is_text_value_ = style == CallStep::Style::kString ||
                   (style == CallStep::Style::kBySchema && schemas_.is_string(name_, *key_));
  n_sent_ = value_begin_;
  if (is_text_value_) arguments_ += '"';
}

// Returns the end of a value that is followed by a mark at `end`, without the line break of the
// format.
size_t CallReader::trimmed_end(size_t end) const {
  const size_t begin = std::max(value_begin_, n_sent_);
  return value_step_->trims_lines && end > begin && text_[end - 1] == '\n' ? end - 1 : end;
}

// Returns the offset up to which text_ is certainly part of the parameter's value.
size_t CallReader::known_value_end() const {
  if (first_quote_end_ > 0) return first_quote_end_;
  if (step().kind != Kind::kText) return trimmed_end(std::max(value_end_, n_sent_));
  const std::string_view mark = step().mark;
  const std::string_view value = std::string_view(text_).substr(value_begin_);
  size_t n_held = std::min(mark.size() - 1, value.size());
  while (!mark.starts_with(value.substr(value.size() - n_held))) --n_held;
  return trimmed_end(text_.size() - n_held);
}

void CallReader::put_text_value(size_t end) {
  if (end <= n_sent_) return;
  if (value_step_->trims_lines && n_sent_ == value_begin_ && text_[n_sent_] == '\n') ++n_sent_;
  put_string(std::string_view(text_).substr(n_sent_, end - n_sent_));
  n_sent_ = end;
}

// Appends text to an open string.
void CallReader::put_string(std::string_view text) {
  const std::string escaped = json_string(text);
  arguments_.append(escaped, 1, escaped.size() - 2);
}

// Returns the text of a value in quotes: of all its quoted sections and of the text between them,
// as XML reads it. If it is not well-formed, the quotes within it are text.
std::string CallReader::unquoted_value() const {
  const std::string_view quote = value_step_->quote, end_quote = value_step_->mark;
  const std::string_view all = std::string_view(text_).substr(value_begin_);
  const std::string_view value = all.substr(0, value_end_ - value_begin_);
  const bool ends_quoted = all.substr(value.size()).starts_with(end_quote);
  std::string_view rest = all.substr(0, value.size() + (ends_quoted ? end_quote.size() : 0));
  std::string text;
  for (bool is_quoted = true;; is_quoted = !is_quoted) {
    const std::string_view mark = is_quoted ? end_quote : quote;
    const size_t end = rest.find(mark);
    const std::string_view section = rest.substr(0, end);
    if (!is_quoted && (section.contains('<') || section.contains(end_quote))) break;
    text += section;
    if (end == rest.npos) return text;
    rest.remove_prefix(end + mark.size());
  }
  return std::string(value);
}

// Writes the rest of the parameter. Returns false if the mark that was read precedes the value.
bool CallReader::end_parameter() {
  if (!key_ || value_end_ == 0) return false;
  const bool is_quoted = first_quote_end_ > 0;
  const std::string unquoted = is_quoted ? unquoted_value() : std::string();
  std::string_view value =
      is_quoted ? unquoted
                : std::string_view(text_).substr(value_begin_, value_end_ - value_begin_);
  if (value_step_->trims_lines) {
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
  }
  if (is_text_value_) {
    put_text_value(is_quoted ? first_quote_end_ : trimmed_end(value_end_));
    if (is_quoted) put_string(value.substr(first_quote_end_ - value_begin_));
    arguments_ += '"';
  } else if (value_step_->style == CallStep::Style::kBySchema) {
    arguments_ += schemas_.json_of(name_, *key_, value);
  } else {
    const std::string json = read_json(trimmed(value));
    arguments_ += json.empty() ? json_string(value) : json;
  }
  key_.reset();
  is_parameter_open_ = false;
  value_begin_ = value_end_ = first_quote_end_ = 0;
  return true;
}

CallReader::Outcome CallReader::take_value(char byte) {
  if (!value_) value_.emplace(*step().dialect, step().begin);
  const ValueReader::State state = value_->push(byte);
  n_sent_ = text_.size() - value_->n_held();
  if (state == ValueReader::State::kBroken) return Outcome::kBroken;
  if (!step().is_sure && !value_->members().empty()) {
    const ValueReader::Member& last = value_->members().back();
    const std::string_view key = last.key_end ? value_->key_of(last) : "name";
    if (!is_one_of(key, kNameKeys) && !is_one_of(key, kArgumentKeys) && key != "type") {
      return Outcome::kBroken;
    }
  }
  if (state == ValueReader::State::kMore) {
    const bool is_other = value_->json().size() == 1 && !value_->is_object();
    return is_other ? Outcome::kBroken : Outcome::kTaken;
  }
  return end_value() ? Outcome::kTaken : Outcome::kBroken;
}

CallReader::Outcome CallReader::take_elements(char byte) {
  if (!elements_) {
    elements_.emplace(schemas_.parameters_of(name_), step().mark);
    n_sent_ = text_.size() - 1;
  }
  const ElementReader::State state = elements_->push(byte);
  if (state == ElementReader::State::kBroken) return Outcome::kBroken;
  n_sent_ = text_.size() - elements_->n_held();
  if (state == ElementReader::State::kMore) return Outcome::kTaken;
  arguments_ = elements_->json();
  elements_.reset();
  go(step().to);
  return Outcome::kTaken;
}

bool CallReader::end_value() {
  if (!value_->is_object()) return false;
  if (step().kind == Kind::kArguments || is_open_) {
    arguments_ = arguments_so_far();
  } else if (!take_json_call()) {
    return false;
  }
  value_.reset();
  go(step().to);
  return true;
}

bool CallReader::take_json_call() {
  for (const ValueReader::Member& member : value_->members()) {
    const std::string_view key = value_->key_of(member);
    const std::string_view json = value_->value_of(member);
    if (is_one_of(key, kNameKeys)) {
      if (!json.starts_with('"')) return false;
      name_ = unquoted(json);
    } else if (is_one_of(key, kIdKeys) && json.starts_with('"')) {
      id_ = unquoted(json);
    } else if (is_one_of(key, kArgumentKeys)) {
      arguments_ = json.starts_with('"') ? read_json(unquoted(json)) : std::string(json);
      if (json == "null") arguments_ = "{}";
      if (!arguments_.starts_with('{')) return false;
    }
  }
  if (arguments_.empty()) arguments_ = "{}";
  const bool is_name = !name_.empty() && name_.size() <= kMaxWord;
  return is_name && (step().is_sure || schemas_.has(name_));
}

}  // namespace kvik
