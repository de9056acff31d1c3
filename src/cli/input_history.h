#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// The input history of a user across sessions. It is a text file with one input per line, oldest
// first, in which "\n" and "\\" represent line breaks and backslashes. Every input is appended
// immediately, so concurrent sessions lose nothing. Errors of the file are ignored: the inputs of
// the session remain available.
class InputHistory {
 public:
  // Reads the file; an empty path means no file. The file and missing folders are created with
  // access for the owner only.
  explicit InputHistory(std::string path);

  const std::vector<std::string>& inputs() const { return inputs_; }

  // Adds an input unless it equals the last one. Returns whether it was added.
  bool add(const std::string& input);

  static constexpr size_t kMaxInputs = 1000;  // number of inputs kept when the file is read

 private:
  void read_file();

  const std::string path_;
  std::vector<std::string> inputs_;
};

}  // namespace kvik
