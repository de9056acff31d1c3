#include "service/tools/call_reader.h"

#include <algorithm>

#include "base/blanks.h"

namespace kvik {
namespace {

using Kind = CallStep::Kind;

constexpr size_t kMaxWord = 256;
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
                       const ToolFormat::Begin& opening)
    : format_(format), schemas_(schemas), step_(opening.step), text_(opening.mark) {}

CallReader::CallReader(const ToolFormat& format, const ToolSchemas& schemas, std::string name)
    : format_(format), schemas_(schemas), name_(std::move(name)) {}

CallReader::State CallReader::push(char byte, std::vector<AnswerPart>& calls) {
  text_ += byte;
  // A step that lets a byte pass, and one that reads again what was held, come at most once in a
  // row for each step of the format.
  for (;;) {
    const Outcome outcome = take(byte);
    if (outcome == Outcome::kBroken) {
      n_again_ = std::min(std::max(held_.size(), size_t{1}), text_.size());
      return State::kBroken;
    }
    const State state = settle(calls);
    if (state != State::kMore || outcome == Outcome::kTaken) return state;
  }
}

// Steps that need no byte.
CallReader::State CallReader::settle(std::vector<AnswerPart>& calls) {
  while (step().kind == Kind::kCall) {
    if (arguments_.empty()) {
      arguments_ = "{";
      for (const auto& [key, json] : parameters_) {
        if (arguments_.size() > 1) arguments_ += ", ";
        arguments_ += json_string(key);
        arguments_ += ": ";
        arguments_ += json;
      }
      arguments_ += '}';
    }
    calls.push_back({.kind = AnswerPart::Kind::kCall,
                     .text = std::move(arguments_),
                     .name = std::move(name_),
                     .id = std::move(id_)});
    has_called_ = true;
    text_.clear();
    begin_call();
    go(0);
  }
  return step().kind == Kind::kEnd ? State::kEnded : State::kMore;
}

bool CallReader::is_between_calls() const {
  const bool is_mark =
      step().kind == Kind::kBlanks || step().kind == Kind::kMark || step().kind == Kind::kOneOf;
  return has_called_ && is_mark && name_.empty();
}

void CallReader::begin_call() {
  name_.clear();
  id_.clear();
  arguments_.clear();
  parameters_.clear();
  key_.reset();
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
      held_.clear();
      end_parameter();
      value_begin_ = text_.size();
      step_ = way.to;
      return Outcome::kTaken;
    }
    may_come = true;
  }
  if (may_come) return Outcome::kTaken;
  if (step().otherwise == CallStep::kNowhere) return Outcome::kBroken;
  step_ = step().otherwise;
  if (step().kind == Kind::kText) {  // goes on where it was; all but this byte cannot end it
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
  bool may_hold = false;  // a blank is a part of some mark
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
  name_ = format_.numbers_names ? without_number(word) : std::move(word);
  return !name_.empty() && name_.find_first_of("<>{}[]()\"'` \n") == name_.npos;
}

// The mark may stand in the value too: what comes behind it decides.
CallReader::Outcome CallReader::take_text() {
  style_ = value_end_ <= value_begin_ ? step().style : style_;
  trims_lines_ = step().trims_lines;
  const std::string_view mark = step().mark;
  const bool is_end = text_.size() >= value_begin_ + mark.size() && text_.ends_with(mark);
  if (!is_end) return Outcome::kTaken;
  value_end_ = text_.size() - mark.size();
  go(step().to);
  return Outcome::kTaken;
}

void CallReader::end_parameter() {
  if (!key_) return;
  std::string_view value = std::string_view(text_).substr(value_begin_, value_end_ - value_begin_);
  if (trims_lines_) {
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
  }
  std::string json;
  if (style_ == CallStep::Style::kJson && is_json(trimmed(value))) {
    json = trimmed(value);
  } else if (style_ == CallStep::Style::kBySchema) {
    json = schemas_.json_of(name_, *key_, value);
  } else {
    json = json_string(value);
  }
  const auto same = std::ranges::find(parameters_, *key_, [](const auto& p) { return p.first; });
  if (same != parameters_.end()) parameters_.erase(same);  // of one name the last counts
  parameters_.emplace_back(std::move(*key_), std::move(json));
  key_.reset();
  value_begin_ = value_end_ = 0;
}

CallReader::Outcome CallReader::take_value(char byte) {
  if (!value_) value_.emplace(*step().dialect, step().begin);
  const ValueReader::State state = value_->push(byte);
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

bool CallReader::end_value() {
  if (!value_->is_object()) return false;
  if (step().kind == Kind::kArguments) {
    arguments_ = value_->json();
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
      arguments_ = json.starts_with('"') ? unquoted(json) : std::string(json);
      if (json == "null") arguments_ = "{}";
      if (!arguments_.starts_with('{') || !is_json(arguments_)) return false;
    }
  }
  if (arguments_.empty()) arguments_ = "{}";
  const bool is_name = !name_.empty() && name_.size() <= kMaxWord;
  return is_name && (step().is_sure || schemas_.has(name_));
}

}  // namespace kvik
