#include "service/structural_tag/tag_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace kvik {
namespace {

using Kind = Json::Kind;

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"null",     "false",    "true",     "a number",
                                         "a string", "an array", "an object"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_off(const Json& json) {
  const bool is_empty = json.text().empty() && json.list().empty() && json.fields().empty();
  return json.is(Kind::kNull) || json.is(Kind::kFalse) ||
         (is_empty && !json.is(Kind::kTrue) && !json.is(Kind::kNumber));
}

}  // namespace

std::string quoted_text(std::string_view text) { return fmt::format("'{}'", printable(text)); }

std::unexpected<Error> TagValue::refuse(std::string_view what) const {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", path_, what), path_);
}

std::unexpected<Error> TagValue::wrong_kind(std::string_view expected) const {
  return refuse(fmt::format("is {}, expected {}", kind_name(json_->kind()), expected));
}

std::optional<TagValue> TagValue::find(std::string_view name) const {
  const Json* member = json_->find(name);
  if (!member || member->is(Kind::kNull)) return std::nullopt;
  return TagValue(*member, fmt::format("{}.{}", path_, name));
}

Result<TagValue> TagValue::member(std::string_view name) const {
  if (auto found = find(name)) return *std::move(found);
  const std::string path = fmt::format("{}.{}", path_, name);
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} is missing", path), path);
}

TagValue TagValue::item(size_t i) const { return {(*json_)[i], fmt::format("{}[{}]", path_, i)}; }

Result<std::string> TagValue::text() const {
  if (!json_->is(Kind::kString)) return wrong_kind("a string");
  return json_->text();
}

Result<std::string> TagValue::text(std::string_view name) const {
  TRY_ASSIGN(const TagValue value, member(name));
  return value.text();
}

Result<bool> TagValue::flag(std::string_view name) const {
  const auto value = find(name);
  if (!value) return false;
  if (!value->json().is_bool()) return value->wrong_kind("true or false");
  return value->json().is(Kind::kTrue);
}

Result<std::vector<std::string>> TagValue::marks(std::string_view name, size_t min) const {
  std::vector<std::string> marks;
  if (min == 0 && !find(name)) return marks;
  TRY_ASSIGN(const TagValue array, member(name));
  TRY(array.check_array(min, kMaxMarks));
  for (size_t i = 0; i < array.json().size(); ++i) {
    const TagValue item = array.item(i);
    TRY_ASSIGN(std::string mark, item.text());
    if (mark.empty() || mark.size() > kMaxMarkBytes) {
      return item.refuse(fmt::format("has {} bytes, expected 1 to {}", mark.size(), kMaxMarkBytes));
    }
    if (std::ranges::find(marks, mark) == marks.end()) marks.push_back(std::move(mark));
  }
  return marks;
}

Result<void> TagValue::check_array(size_t min, size_t max) const {
  if (!json_->is(Kind::kArray)) return wrong_kind("an array");
  const size_t n = json_->size();
  if (n >= min && n <= max) return {};
  return refuse(fmt::format("holds {} values, expected {} to {}", n, min, max));
}

Result<void> TagValue::check_members(std::span<const std::string_view> known) const {
  for (const Json::Field& field : json_->fields()) {
    const bool is_listed = !field.name.empty() && std::ranges::count(known, field.name) > 0;
    if (is_listed || field.name == "type" || is_off(field.data)) continue;
    return refuse(
        fmt::format("has the member {}, which is not supported here", quoted_text(field.name)));
  }
  return {};
}

}  // namespace kvik
