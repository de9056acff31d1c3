#include "server/dialects/raw_json.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

namespace kvik {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text;
}

// Returns the length of the string at the beginning, including its quotes.
size_t string_bytes(std::string_view text) {
  size_t at = 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

// Returns the length of the value at the beginning.
size_t value_bytes(std::string_view text) {
  if (text.starts_with('"')) return string_bytes(text);
  if (!text.starts_with('{') && !text.starts_with('[')) {
    return std::min(text.find_first_of(",]} \t\r\n"), text.size());
  }
  size_t depth = 0, at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at += string_bytes(text.substr(at));
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

bool is_name(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') == std::string_view::npos) {
    return quoted.substr(1, quoted.size() - 2) == name;
  }
  const boost::json::value value = boost::json::parse(quoted);
  return std::string_view(value.get_string()) == name;
}

std::string_view member(std::string_view object, std::string_view name) {
  std::string_view found;
  if (!object.starts_with('{')) return found;
  std::string_view rest = without_blanks(object.substr(1));
  while (rest.starts_with('"')) {
    const std::string_view key = rest.substr(0, string_bytes(rest));
    rest = without_blanks(rest.substr(key.size()));  // then the colon
    if (rest.empty()) break;
    rest = without_blanks(rest.substr(1));
    const std::string_view value = rest.substr(0, value_bytes(rest));
    if (is_name(key, name)) found = value;
    rest = without_blanks(rest.substr(value.size()));
    if (!rest.starts_with(',')) break;
    rest = without_blanks(rest.substr(1));
  }
  return found;
}

}  // namespace

std::string_view raw_value(std::string_view json, std::string_view path) {
  std::string_view value = without_blanks(json);
  while (!path.empty()) {
    const size_t n = std::min(path.find('.'), path.size());
    value = member(value, path.substr(0, n));
    path.remove_prefix(std::min(n + 1, path.size()));
  }
  return value;
}

}  // namespace kvik
