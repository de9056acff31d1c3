#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Puts typed lines together to one input: a line that ends in a backslash goes on with the next,
// and
// """ at the beginning (or behind a command's name) opens a block that the next """ at a line's end
// closes. A paste of several lines counts as one line.
class ChatInput {
 public:
  // The whole input, once this line completes it.
  std::optional<std::string> push(std::string_view line);

  // Whether lines came that are not complete.
  bool is_open() const { return !raw_.empty(); }

  // The last input as one line that gives it again: a block keeps its marks.
  const std::string& typed() const { return typed_; }

  // Gives up what came so far.
  void reset() { raw_.clear(); }

 private:
  std::string raw_;
  std::string typed_;
};

}  // namespace kvik
