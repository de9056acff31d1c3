#include "format/hf/modules/modules.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>

#include "base/json/json_object.h"
#include "format/hf/tensor_files.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr const char* kModulesFile = "modules.json";

}  // namespace

Result<std::optional<json::value>> read_module_json(const std::string& folder,
                                                    const std::string& name) {
  TRY_ASSIGN(const auto text, read_text_file(fmt::format("{}/{}", folder, name), kMaxFileBytes));
  if (!text) return std::optional<json::value>();
  TRY_ASSIGN(auto parsed, parse_json_file(*text, name));
  return std::optional(std::move(parsed));
}

Result<json::value> read_module_config(const std::string& folder, const Module& module) {
  const std::string file = module.path + "/config.json";
  TRY_ASSIGN(auto parsed, read_module_json(folder, file));
  if (!parsed) return fail(ErrorCode::kCorrupt, fmt::format("{} is missing", file));
  return std::move(*parsed);
}

Result<std::vector<Module>> read_modules(const std::string& folder) {
  std::vector<Module> modules;
  TRY_ASSIGN(const auto parsed, read_module_json(folder, kModulesFile));
  if (!parsed) return modules;
  const json::array* list = parsed->if_array();
  if (!list) return fail(ErrorCode::kCorrupt, fmt::format("{}: expected a list", kModulesFile));
  for (const json::value& item : *list) {
    TRY_ASSIGN(const JsonObject stated, JsonObject::of(item, kModulesFile, "[]"));
    Module& added = modules.emplace_back();
    TRY_ASSIGN(added.type, stated.required_text("type"));
    TRY_ASSIGN(added.path, stated.required_text("path"));
    added.kind = added.type.substr(added.type.rfind('.') + 1);
    if (added.path.starts_with('/') || added.path.contains("..")) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: path {} leaves the model's folder",
                                                   kModulesFile, quoted(added.path)));
    }
  }
  return modules;
}

}  // namespace kvik::hf
