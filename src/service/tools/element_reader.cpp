#include "service/tools/element_reader.h"

#include <algorithm>

#include "base/blanks.h"
#include "service/tools/call_syntax.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {
namespace {

// request bodies that contain earlier calls are read up to depth 64
constexpr size_t kMaxDepth = 60;
constexpr size_t kMaxTag = 256;
constexpr std::string_view kItem = "item";
constexpr std::string_view kNoTagBytes = "<>{}[]()=\"'`,";

bool is_tag_byte(char byte) {
  return static_cast<unsigned char>(byte) > 0x20 && kNoTagBytes.find(byte) == kNoTagBytes.npos;
}

}  // namespace

ElementReader::ElementReader(const Json* parameters, std::string_view end)
    : root_(parameters), end_(end), frames_{{"", parameters, false}} {}

ElementReader::State ElementReader::push(char byte) {
  switch (place_) {
    case Place::kBetween:
      return between(byte);
    case Place::kBegin:
      return begin(byte);
    case Place::kText:
      return text(byte);
  }
  return State::kBroken;
}

ElementReader::State ElementReader::between(char byte) {
  if (held_.empty() && is_blank(byte)) return State::kMore;
  held_ += byte;
  constexpr size_t kBegin = kTagNamespace.size() + 1;  // of a tag's name
  if (held_.size() < kBegin) {
    return kTagNamespace.starts_with(held_) ? State::kMore : State::kBroken;
  }
  if (held_.size() == kBegin) {
    return held_.starts_with(kTagNamespace) && byte == '<' ? State::kMore : State::kBroken;
  }
  if (byte == '>') return end_tag();
  const bool is_slash = byte == '/' && held_.size() == kBegin + 1;
  return (is_slash || is_tag_byte(byte)) && held_.size() < kBegin + kMaxTag ? State::kMore
                                                                            : State::kBroken;
}

// A tag between elements is complete: it opens one, or closes a list, an object or the arguments.
ElementReader::State ElementReader::end_tag() {
  if (frames_.size() == 1 && held_ == end_) {
    json_ += '}';
    held_.clear();
    return State::kDone;
  }
  const std::string held = taken(held_);
  std::string_view tag = std::string_view(held).substr(kTagNamespace.size() + 1);
  tag.remove_suffix(1);
  if (!tag.starts_with('/')) return open_element(tag) ? State::kMore : State::kBroken;
  if (frames_.size() == 1 || tag.substr(1) != frames_.back().tag) return State::kBroken;
  json_ += frames_.back().is_list ? ']' : '}';
  frames_.pop_back();
  return State::kMore;
}

// Writes the key of an element. Returns false if there can be none of that name.
bool ElementReader::open_element(std::string_view tag) {
  Frame& frame = frames_.back();
  if (tag.empty() || (frame.is_list && tag != kItem)) return false;
  schema_ = child_schema(tag);
  if (frame.n_children++ > 0) json_ += ", ";
  if (!frame.is_list) json_ += json_string(tag) + ": ";
  tag_ = tag;
  const auto kinds = root_ && schema_ ? kinds_of(*root_, *schema_) : Kinds();
  is_string_ = kinds.size() == 1 && kinds.contains("string");
  skips_blanks_ = !kinds.empty() && !kinds.contains("string");
  closing_ = std::string(kTagNamespace).append("</").append(tag_).append(">");
  text_.clear();
  n_put_ = 0;
  place_ = Place::kBegin;
  return true;
}

const Json* ElementReader::child_schema(std::string_view tag) const {
  const Frame& frame = frames_.back();
  if (!frame.schema) return nullptr;
  const Json* schema = frame.schema;
  if (const Json* to = find_field(*schema, "$ref")) {
    const auto* name = std::get_if<std::string>(&to->value);
    schema = name && root_ ? follow_reference(*root_, *name) : nullptr;
    if (!schema) return nullptr;
  }
  if (frame.is_list) return find_field(*schema, "items");
  const Json* properties = find_field(*schema, "properties");
  return properties ? find_field(*properties, tag) : nullptr;
}

// Decides at the first bytes of an element whether it has elements.
ElementReader::State ElementReader::begin(char byte) {
  if (held_.empty() && skips_blanks_ && is_blank(byte)) return State::kMore;
  held_ += byte;
  constexpr size_t kName = kTagNamespace.size() + 1;
  if (held_.size() <= kName) {
    const bool is_tag = held_.size() < kName ? kTagNamespace.starts_with(held_)
                                             : held_.starts_with(kTagNamespace) && byte == '<';
    return is_tag ? State::kMore : begin_text();
  }
  if (held_.size() == kName + 1 && byte == '/') return begin_text();
  if (is_string_) return begin_text();
  if (byte != '>') {
    const bool is_name = is_tag_byte(byte) && held_.size() < kName + kMaxTag;
    return is_name ? State::kMore : begin_text();
  }
  if (frames_.size() >= kMaxDepth) return State::kBroken;
  const std::string held = taken(held_);
  std::string_view tag = std::string_view(held).substr(kName);
  tag.remove_suffix(1);
  const auto kinds = root_ && schema_ ? kinds_of(*root_, *schema_) : Kinds();
  const bool is_list =
      kinds.contains("array") != kinds.contains("object") ? kinds.contains("array") : tag == kItem;
  if (is_list && tag != kItem) return State::kBroken;
  json_ += is_list ? '[' : '{';
  frames_.push_back({tag_, schema_, is_list});
  place_ = Place::kBetween;
  return open_element(tag) ? State::kMore : State::kBroken;
}

ElementReader::State ElementReader::begin_text() {
  place_ = Place::kText;
  if (is_string_) json_ += '"';
  const std::string held = taken(held_);
  for (const char byte : held) {
    if (const State state = text(byte); state != State::kMore) return state;
  }
  return State::kMore;
}

ElementReader::State ElementReader::text(char byte) {
  text_ += byte;
  size_t n_known = text_.size() - std::min(closing_.size(), text_.size());
  while (!closing_.starts_with(std::string_view(text_).substr(n_known))) ++n_known;
  const bool is_end = text_.size() - n_known == closing_.size();
  if (is_string_ && n_known > n_put_) {
    const std::string_view more = std::string_view(text_).substr(n_put_, n_known - n_put_);
    const std::string escaped = json_string(more);
    json_.append(escaped, 1, escaped.size() - 2);
    n_put_ = n_known;
  }
  if (!is_end) return State::kMore;
  text_.resize(n_known);
  end_text();
  place_ = Place::kBetween;
  return State::kMore;
}

// Elements do not say whether "1" is a number. Below an argument of which no schema tells, it is.
void ElementReader::end_text() {
  if (is_string_) {
    json_ += '"';
    return;
  }
  Kinds kinds = root_ && schema_ ? kinds_of(*root_, *schema_) : Kinds();
  if (kinds.empty() && frames_.size() > 1) kinds = {"null", "boolean", "number", "string"};
  const bool is_empty = trimmed(text_).empty() && !kinds.contains("string");
  if (is_empty && kinds.contains("array")) {
    json_ += "[]";
  } else if (is_empty && kinds.contains("object")) {
    json_ += "{}";
  } else {
    json_ += json_of_kinds(kinds, text_);
  }
}

}  // namespace kvik
