#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace kvik {

// What the tools of a request take, for formats that write arguments as plain text: numbers are to
// stay numbers. Immutable: any thread.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  // As templates are given them: {"type": "function", "function": {"name": …, "parameters": …}}, or
  // without the shell.
  explicit ToolSchemas(const std::vector<Json>& tools);

  bool has(std::string_view tool) const { return tools_.contains(tool); }

  // Returns whether the tool is declared and these arguments, a JSON text, fit its schema.
  bool fits(std::string_view tool, std::string_view arguments) const;

  // Returns whether the schema allows strings and nothing else for this parameter.
  bool is_string(std::string_view tool, std::string_view parameter) const;

  // What a model wrote for a parameter, as JSON: of the first kind that the schema allows and the
  // text can be, else a string. Without a schema what looks like an object or a list is one.
  std::string json_of(std::string_view tool, std::string_view parameter,
                      std::string_view text) const;

 private:
  std::set<std::string, std::less<>> kinds_of_parameter(std::string_view tool,
                                                        std::string_view parameter) const;

  struct Tool {
    std::map<std::string, const Json*, std::less<>> properties;
    Json parameters;  // what the pointers point into
  };
  std::map<std::string, Tool, std::less<>> tools_;
};

// The kinds ("string", "integer", …) that a schema allows, as far as they can be seen from outside;
// none: any. References lead into `root`.
std::set<std::string, std::less<>> kinds_of(const Json& root, const Json& schema);

// Returns what "#/$defs/x" refers to within `root`, null where nothing is there.
const Json* follow_reference(const Json& root, std::string_view reference);

// The field of that name of an object; null where there is none.
const Json* find_field(const Json& object, std::string_view name);

}  // namespace kvik
