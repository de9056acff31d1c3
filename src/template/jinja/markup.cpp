#include <algorithm>
#include <initializer_list>

#include "template/jinja/runtime.h"

// Implements Jinja's markup, which is text that is HTML already, by the rules of MarkupSafe.

namespace kvik::jinja {
namespace {

std::string_view entity_of(char c) {
  constexpr std::string_view kSigns = "&<>\"'";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;", ""};
  return kEntities[std::min(kSigns.find(c), kSigns.size())];
}

// Returns whether the method is in `names`, a list of methods whose arguments are escaped and whose
// results are markup.
bool is_among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool escapes_arguments(std::string_view name) {
  return is_among(name, {"replace", "ljust", "rjust", "lstrip", "rstrip", "strip", "center",
                         "zfill", "partition", "rpartition", "expandtabs"});
}

bool makes_markup(std::string_view name) {
  return !is_among(name, {"removeprefix", "removesuffix", "casefold"});
}

Value marked(const Value& value) {
  if (value.text()) return Value(value.text()->markup());
  if (!value.list()) return value;
  std::vector<Value> items;
  for (const Value& item : value.list()->items) items.push_back(marked(item));
  return make_view(value.list()->kind, std::move(items));
}

Value unmarked(const Value& value) { return value.text() ? Value(value.text()->plain()) : value; }

Result<Value> call_markup(Runtime& runtime, const StringMethod& method, const Text& self,
                          Arguments arguments) {
  if (escapes_arguments(method.name)) {
    for (Value& argument : arguments.positional) {
      if (!argument.text()) continue;
      TRY_ASSIGN(Text escaped, escape_html(runtime, *argument.text()));
      argument = Value(std::move(escaped));
    }
  }
  if (method.name == "join" && !arguments.positional.empty()) {
    TRY_ASSIGN(std::vector<Value> items, iterate(runtime, arguments.positional[0]));
    for (Value& item : items) {
      TRY_ASSIGN(item, apply_filter(runtime, "escape", item, {}));
    }
    arguments.positional[0] = make_list(std::move(items));
  }
  TRY_ASSIGN(const Value result, method.call(runtime, self, arguments));
  return makes_markup(method.name) ? marked(result) : unmarked(result);
}

}  // namespace

Result<Value> call_string(Runtime& runtime, const StringMethod& method, const Text& self,
                          const Arguments& arguments) {
  TRY_ASSIGN(const auto bound, BoundArguments::bind(method.name, method.signature, arguments));
  if (self.is_markup()) return call_markup(runtime, method, self, arguments);
  return method.function(runtime, self, bound);
}

Result<Text> escape_html(Runtime& runtime, const Text& text) {
  if (text.is_markup()) return text;
  TRY(runtime.charge_bytes(text.size() * 5));
  Text out;
  text.each_run([&](std::string_view bytes, Origin origin) {
    size_t begin = 0;  // start of the bytes that are not yet written
    for (size_t at = 0; at < bytes.size(); ++at) {
      const std::string_view entity = entity_of(bytes[at]);
      if (entity.empty()) continue;
      out.append(bytes.substr(begin, at - begin), origin);
      out.append(entity, origin);
      begin = at + 1;
    }
    out.append(bytes.substr(begin), origin);
  });
  return out.markup();
}

}  // namespace kvik::jinja
