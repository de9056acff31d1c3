#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <span>
#include <string>
#include <string_view>

#include "server/routes.h"

namespace kvik {
namespace {

namespace json = boost::json;

json::object body_json(std::span<const BodyField> fields) {
  json::object properties;
  json::array required;
  for (const BodyField& field : fields) {
    properties[field.name] =
        field.type.empty() ? json::object() : json::object{{"type", field.type}};
    if (field.is_required) required.emplace_back(field.name);
  }
  const json::object schema{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  return {{"required", true}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

json::object operation_json(const Route& route) {
  json::object out{{"summary", route.summary}};
  if (route.path.contains("{id}")) {
    const json::object id{
        {"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
    out["parameters"] = json::array{id};
  }
  if (!route.body.empty()) out["requestBody"] = body_json(route.body);
  const json::object answered{{"description", "The answer"},
                              {"content", {{route.answer, json::object()}}}};
  out["responses"] = {{"200", answered},
                      {"default", {{"description", "An error in the shape of its API"}}}};
  return out;
}

}  // namespace

Reply handle_openapi(const HandlerContext& context, const HttpRequest&) {
  json::object paths;
  for (const Route& route : routes()) {
    json::value& path = paths[route.path];
    if (!path.is_object()) path = json::object();
    std::string method(route.method);
    std::ranges::transform(method, method.begin(), [](unsigned char c) { return std::tolower(c); });
    path.get_object()[method] = operation_json(route);
  }
  const json::object bearer{{"type", "http"}, {"scheme", "bearer"}};
  const json::object header{{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}};
  const json::object out{
      {"openapi", "3.1.0"},
      {"info", {{"title", "Kvik"}, {"version", context.options.version}}},
      {"security",
       json::array{json::object(), {{"bearer", json::array()}}, {{"key", json::array()}}}},
      {"paths", std::move(paths)},
      {"components", {{"securitySchemes", {{"bearer", bearer}, {"key", header}}}}}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
