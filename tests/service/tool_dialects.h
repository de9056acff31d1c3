#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

// A call as a test means it: its arguments' values are JSON.
struct MeantCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments = {};
};

// How the models of a format write calls, said once more and independently of the reader.
struct ToolDialect {
  std::string name;          // of the format, as --tool-format has it
  std::string_view thought;  // with "%" for the words
  std::string (*write)(const std::vector<MeantCall>& calls);
  // A beginning that goes on otherwise than calls do.
  std::string_view broken;
  bool writes_several = true;
  std::string_view text_frame = "%";  // around what is said: harmony's message
};

inline void PrintTo(const ToolDialect& dialect, std::ostream* out) { *out << dialect.name; }

const std::vector<ToolDialect>& tool_dialects();

// The words in the place of "%".
std::string framed(std::string_view frame, std::string_view words);

// {"key": value, …}
std::string json_of(const MeantCall& call);

}  // namespace kvik
