#include "service/tools/bare_call_reader.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/blanks.h"

namespace kvik {
namespace {

constexpr std::string_view kFenceMark = "```";
constexpr size_t kMaxLanguage = 16;
constexpr size_t kMaxBareName = 256;
constexpr size_t kMaxBareMembers = 4;
constexpr std::string_view kBareNameKeys[] = {"name"};
constexpr std::string_view kBareArgumentKeys[] = {"arguments", "parameters"};
constexpr std::string_view kBareOtherKeys[] = {"type", "id"};
// Tags that models write around calls instead of those of their format.
constexpr std::array<std::string_view, 6> kTags = {"<tools>", "</tools>",     "<tool>",
                                                   "</tool>", "</tool_call>", "</function_call>"};

template <class Names>
bool is_among(std::string_view name, const Names& names) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

}  // namespace

BareCallReader::State BareCallReader::push(char byte) {
  text_ += byte;
  switch (place_) {
    case Place::kBetween:
      return between(byte);
    case Place::kFence:
      return fence(byte);
    case Place::kLanguage:
      return language(byte);
    case Place::kTag:
      return tag(byte);
    case Place::kBrace:
      return brace(byte);
    case Place::kObject:
      return object(byte);
    case Place::kSecondBrace:
      place_ = Place::kBetween;
      return byte == '}' ? State::kMore : between(byte);
  }
  return State::kBroken;
}

BareCallReader::State BareCallReader::between(char byte) {
  if (is_blank(byte)) return State::kMore;
  const bool is_separator = !calls_.empty() && (byte == ',' || byte == ';');
  if (is_separator) return State::kMore;
  if ((byte == '[' && !is_in_list_) || (byte == ']' && is_in_list_)) {
    is_in_list_ = !is_in_list_;
    return State::kMore;
  }
  if (byte == '{') {
    place_ = Place::kBrace;
    return State::kMore;
  }
  if (byte != '`' && byte != '<') return State::kBroken;
  held_ = byte;
  place_ = byte == '`' ? Place::kFence : Place::kTag;
  return State::kMore;
}

BareCallReader::State BareCallReader::fence(char byte) {
  held_ += byte;
  if (!kFenceMark.starts_with(held_)) return State::kBroken;
  if (held_.size() < kFenceMark.size()) return State::kMore;
  held_.clear();
  is_in_block_ = !is_in_block_;
  place_ = is_in_block_ ? Place::kLanguage : Place::kBetween;
  return State::kMore;
}

BareCallReader::State BareCallReader::language(char byte) {
  if (is_letter(byte) && held_.size() < kMaxLanguage) {
    held_ += byte;
    return State::kMore;
  }
  held_.clear();
  place_ = Place::kBetween;
  return between(byte);
}

BareCallReader::State BareCallReader::tag(char byte) {
  held_ += byte;
  const auto may_be = [&](std::string_view each) { return each.starts_with(held_); };
  if (std::ranges::none_of(kTags, may_be)) return State::kBroken;
  if (byte != '>') return State::kMore;
  held_.clear();
  place_ = Place::kBetween;
  return State::kMore;
}

BareCallReader::State BareCallReader::brace(char byte) {
  value_.emplace(kJson, ValueReader::Begin::kObject);
  place_ = Place::kObject;
  has_two_braces_ = byte == '{';
  return has_two_braces_ ? State::kMore : object(byte);
}

// Breaks at the first unknown key or undeclared name, so little text is held back.
BareCallReader::State BareCallReader::object(char byte) {
  const ValueReader::State state = value_->push(byte);
  if (state == ValueReader::State::kBroken) return State::kBroken;
  const auto& members = value_->members();
  if (members.size() > kMaxBareMembers) return State::kBroken;
  if (!members.empty() && members.back().key_end > 0) {
    const std::string_view key = value_->key_of(members.back());
    const bool is_known = is_among(key, kBareNameKeys) || is_among(key, kBareArgumentKeys) ||
                          is_among(key, kBareOtherKeys);
    const bool is_name = is_among(key, kBareNameKeys) && members.back().value_end > 0;
    if (!is_known || (is_name && !schemas_.has(name_so_far()))) return State::kBroken;
  }
  return state == ValueReader::State::kMore ? State::kMore : end_object();
}

const ValueReader::Member* BareCallReader::find_member(
    std::span<const std::string_view> keys) const {
  const auto found = std::ranges::find_if(value_->members(), [&](const auto& member) {
    return member.value_begin > 0 && is_among(value_->key_of(member), keys);
  });
  return found == value_->members().end() ? nullptr : &*found;
}

// Returns the function's name; empty if it has not arrived yet.
std::string BareCallReader::name_so_far() const {
  const ValueReader::Member* member = find_member(kBareNameKeys);
  if (!member || member->value_end == 0 || member->value_end - member->value_begin > kMaxBareName)
    return "";
  const std::string_view json = value_->value_of(*member);
  return json.starts_with('"') ? unquoted(json) : "";
}

BareCallReader::State BareCallReader::end_object() {
  const ValueReader::Member* member = find_member(kBareArgumentKeys);
  if (!member) return State::kBroken;
  const std::string_view json = value_->value_of(*member);
  AnswerPart call{.kind = AnswerPart::Kind::kCall,
                  .text = json.starts_with('"') ? read_json(unquoted(json)) : std::string(json),
                  .name = name_so_far()};
  value_.reset();
  if (!schemas_.fits(call.name, call.text)) return State::kBroken;
  calls_.push_back(std::move(call));
  place_ = has_two_braces_ ? Place::kSecondBrace : Place::kBetween;
  return State::kMore;
}

std::vector<AnswerPart> BareCallReader::calls() const {
  const bool is_whole =
      (place_ == Place::kBetween || place_ == Place::kSecondBrace) && !is_in_list_;
  return is_whole ? calls_ : std::vector<AnswerPart>();
}

}  // namespace kvik
