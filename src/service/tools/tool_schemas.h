#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace kvik {

// The parameter schemas of a request's tools. Formats that write arguments as plain text need them
// to restore types: numbers remain numbers. Immutable; any thread.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  // Takes tools as they are passed to templates: {"type": "function", "function": {"name": …,
  // "parameters": …}}, or the inner object alone.
  explicit ToolSchemas(const std::vector<Json>& tools);

  bool has(std::string_view tool) const { return tools_.contains(tool); }

  // Returns whether the tool is declared and its schema accepts these arguments (a JSON text).
  bool fits(std::string_view tool, std::string_view arguments) const;

  // Returns the schema of the tool's parameters; null if there is none.
  const Json* parameters_of(std::string_view tool) const;

  // Returns whether the schema allows only strings for this parameter.
  bool is_string(std::string_view tool, std::string_view parameter) const;

  // Converts the text of a parameter to JSON, by the types that its schema allows.
  std::string json_of(std::string_view tool, std::string_view parameter,
                      std::string_view text) const;

 private:
  std::set<std::string, std::less<>> kinds_of_parameter(std::string_view tool,
                                                        std::string_view parameter) const;

  struct Tool {
    std::map<std::string, const Json*, std::less<>> properties;
    Json parameters;  // owns the values to which `properties` points
  };
  std::map<std::string, Tool, std::less<>> tools_;
};

// The types ("string", "integer", …) that a schema allows; empty: any.
using Kinds = std::set<std::string, std::less<>>;

// Returns the types as far as the schema's top level shows. References are resolved in `root`.
Kinds kinds_of(const Json& root, const Json& schema);

// Converts a text to JSON: to the first of the types that it can represent, otherwise to a string.
// If any type is allowed, text that looks like an object or a list is treated as such.
std::string json_of_kinds(const Kinds& kinds, std::string_view text);

// Returns the target of a reference such as "#/$defs/x" in `root`; null if it does not exist.
const Json* follow_reference(const Json& root, std::string_view reference);

// Returns the field of an object with this name; null if there is none.
const Json* find_field(const Json& object, std::string_view name);

}  // namespace kvik
