#include "base/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace kvik {

Json::Kind Json::kind() const {
  struct Kinds {
    Kind operator()(Null) const { return Kind::kNull; }
    Kind operator()(bool is_true) const { return is_true ? Kind::kTrue : Kind::kFalse; }
    Kind operator()(int64_t) const { return Kind::kNumber; }
    Kind operator()(double) const { return Kind::kNumber; }
    Kind operator()(const Number&) const { return Kind::kNumber; }
    Kind operator()(const std::string&) const { return Kind::kString; }
    Kind operator()(const List&) const { return Kind::kArray; }
    Kind operator()(const Fields&) const { return Kind::kObject; }
  };
  return std::visit(Kinds{}, value);
}

namespace {

template <class Part>
const Part& part_or_empty(const Json& json) {
  static const Part empty;
  const Part* part = std::get_if<Part>(&json.value);
  return part ? *part : empty;
}

}  // namespace

const std::string& Json::text() const { return part_or_empty<std::string>(*this); }
const Json::List& Json::list() const { return part_or_empty<List>(*this); }
const Json::Fields& Json::fields() const { return part_or_empty<Fields>(*this); }

size_t Json::size() const { return list().size() + fields().size(); }

const Json& Json::operator[](size_t i) const {
  return list().empty() ? fields()[i].data : list()[i];
}

const Json* Json::find(std::string_view name) const {
  const auto found = std::ranges::find(fields(), name, &Field::name);
  return found == fields().end() ? nullptr : &found->data;
}

std::string Json::number_text() const {
  if (const auto* written = std::get_if<Number>(&value)) return written->text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return {};
}

std::optional<double> Json::number() const {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const auto* written = std::get_if<Number>(&value);
  if (!written) return std::nullopt;
  double real = 0;
  const char* end = written->text.data() + written->text.size();
  const auto read = std::from_chars(written->text.data(), end, real);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return real;
}

}  // namespace kvik
