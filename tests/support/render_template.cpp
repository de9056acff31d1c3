// Renders chat templates for tests in another language. Each line of stdin is a JSON object with
// "source", "variables" and "now" (seconds since 1970). Each line of stdout is an object with
// "text" or "error".

#include <boost/json.hpp>
#include <iostream>
#include <map>
#include <string>

#include "template/chat_template.h"

namespace json = boost::json;

namespace kvik {
namespace {

jinja::Value to_value(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return jinja::None{};
    case json::kind::bool_:
      return value.get_bool();
    case json::kind::int64:
      return value.get_int64();
    case json::kind::uint64:
      return static_cast<double>(value.get_uint64());
    case json::kind::double_:
      return value.get_double();
    case json::kind::string:
      return jinja::make_text(std::string(value.get_string()), jinja::Origin::kGiven);
    case json::kind::array: {
      std::vector<jinja::Value> items;
      for (const json::value& item : value.get_array()) items.push_back(to_value(item));
      return jinja::make_list(std::move(items));
    }
    case json::kind::object: {
      jinja::Dict dict;
      for (const auto& item : value.get_object()) {
        dict.entries.emplace_back(jinja::make_text(std::string(item.key()), jinja::Origin::kGiven),
                                  to_value(item.value()));
      }
      return jinja::Value(std::move(dict));
    }
  }
  return jinja::Value();
}

json::object answer(const json::object& question, std::map<std::string, ChatTemplate>& templates) {
  const std::string source(question.at("source").as_string());
  auto found = templates.find(source);
  if (found == templates.end()) {
    auto parsed = ChatTemplate::parse(source);
    if (!parsed) return {{"error", parsed.error().message}};
    found = templates.emplace(source, std::move(*parsed)).first;
  }
  ChatTemplate::Variables variables;
  for (const auto& item : question.at("variables").as_object()) {
    variables.emplace_back(std::string(item.key()), to_value(item.value()));
  }
  const auto text = found->second.render(variables, {}, question.at("now").to_number<int64_t>());
  if (!text) return {{"error", text.error().message}};
  return {{"text", text->bytes()}};
}

}  // namespace
}  // namespace kvik

int main() {
  std::map<std::string, kvik::ChatTemplate> templates;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << json::serialize(kvik::answer(json::parse(line).as_object(), templates)) << "\n";
  }
}
