#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Joins typed lines to one input. A line that ends in a backslash continues on the next one. """ at
// the beginning (or after the name of a command) opens a block that ends with the next """ at the
// end of a line. Several pasted lines count as one line.
class ChatInput {
 public:
  // Adds a line, and returns the input if it is complete.
  std::optional<std::string> push(std::string_view line);

  // Returns whether an incomplete input exists.
  bool is_open() const { return !raw_.empty(); }

  // Returns the last input in its typed form, with the marks of a block, so that typing it again
  // gives the same input.
  const std::string& typed() const { return typed_; }

  // Discards the incomplete input.
  void reset() { raw_.clear(); }

 private:
  std::string raw_;
  std::string typed_;
};

}  // namespace kvik
