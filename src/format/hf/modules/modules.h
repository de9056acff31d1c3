#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik::hf {

// Kinds of modules.
inline constexpr std::string_view kPoolingModule = "Pooling", kDenseModule = "Dense";

// A module of sentence-transformers: what modules.json lists.
struct Module {
  std::string kind;  // name of its class, such as "Pooling"
  std::string type;  // with the packages
  std::string path;  // its folder in the model's folder; empty: that itself
};

// Returns the modules of a folder, in order; none if it has no modules.json. Errors: kCorrupt for a
// list that is not one of modules, or a path that leaves the folder.
Result<std::vector<Module>> read_modules(const std::string& folder);

// Returns the content of a JSON file of the folder; std::nullopt if there is none.
Result<std::optional<boost::json::value>> read_module_json(const std::string& folder,
                                                           const std::string& name);
// Returns the content of the module's config.json. Errors: kCorrupt if it is missing.
Result<boost::json::value> read_module_config(const std::string& folder, const Module& module);

}  // namespace kvik::hf
