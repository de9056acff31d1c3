#include "text/hf/tokenizer_object.h"

#include <utility>

namespace kvik::hf {

Result<JsonObject> object_at(const boost::json::value& value, std::string path) {
  return JsonObject::of(value, kTokenizerFile, std::move(path));
}

std::unexpected<Error> unexpected_value(std::string_view path, const boost::json::value* value,
                                        std::string_view expected) {
  return kvik::unexpected_value(kTokenizerFile, path, value, expected);
}

Result<Pattern> read_pattern(const JsonObject& object) {
  TRY_ASSIGN(const auto pattern, object.object("pattern"));
  if (!pattern) return object.unexpected_value("pattern", "a text or a regex");
  TRY_ASSIGN(auto text, pattern->text("String"));
  if (text) return Pattern{std::move(*text), false};
  TRY_ASSIGN(auto regex, pattern->required_text("Regex"));
  return Pattern{std::move(regex), true};
}

}  // namespace kvik::hf
