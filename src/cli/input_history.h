#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// What a user typed, across sessions: a text file, an input a line, oldest first, with "\n" and
// "\\" for line ends and backslashes. Every input is appended at once, so that sessions side by
// side lose nothing. A file that cannot be read or written is no trouble: the session's own inputs
// remain.
class InputHistory {
 public:
  // Reads what is there; an empty path keeps no file. Folders on the way are made, for their owner
  // alone, as the file.
  explicit InputHistory(std::string path);

  const std::vector<std::string>& inputs() const { return inputs_; }

  // Not where the last one was the same. True where it was added.
  bool add(const std::string& input);

  static constexpr size_t kMaxInputs = 1000;  // kept when a file is read

 private:
  void read_file();

  const std::string path_;
  std::vector<std::string> inputs_;
};

}  // namespace kvik
