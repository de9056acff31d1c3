#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

// A tool call that a model intends to make. The values of its arguments are JSON.
struct ExpectedCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments = {};
};

// Writes calls as the models of a tool format do. Independent of the parser under test.
struct ToolDialect {
  std::string name;            // name of the format, as in --tool-format
  std::string_view reasoning;  // reasoning, with "%" for its text
  std::string (*write)(const std::vector<ExpectedCall>& calls);
  // beginning of a call that is not continued as one: text
  std::string_view broken;
  bool writes_several = true;
  std::string_view text_frame = "%";  // text, with "%" for its words; harmony: a message
};

inline void PrintTo(const ToolDialect& dialect, std::ostream* out) { *out << dialect.name; }

const std::vector<ToolDialect>& tool_dialects();

// Returns the frame with "%" replaced by the words.
std::string framed(std::string_view frame, std::string_view words);

// Returns the arguments as a JSON object.
std::string json_of(const ExpectedCall& call);

}  // namespace kvik
