#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// Of printed text: the answer, what stands beside it, what went wrong.
enum class TextStyle { kPlain, kDim, kError };

// Where a chat reads and writes: a terminal, or a test. Calls come from the chat's thread, but for
// those that say otherwise.
class Console {
 public:
  virtual ~Console() = default;

  // One line that was typed, or several that were pasted; without its end, valid UTF-8. kInterrupt
  // comes with what stood there and is given up; kEnd is the end of all input.
  struct Input {
    enum class Kind { kLine, kInterrupt, kEnd };
    Kind kind = Kind::kLine;
    std::string text = {};
  };
  enum class Prompt { kFirst, kMore };  // kMore: the lines before are not complete
  virtual Input read(Prompt prompt) = 0;

  // An input that the arrow keys shall bring back.
  virtual void remember(const std::string& input) = 0;

  // Any thread, one at a time. What could steer a terminal must not reach it.
  virtual void write(std::string_view text, TextStyle style) = 0;
  // Any thread. How much of a prompt is read; the next write() takes its place.
  virtual void show_progress(uint32_t n_done, uint32_t n_all) = 0;

  // Waits for wake(), or for the user who has enough: of the answer, or of the program. It may also
  // end as kWoken where nothing happened.
  enum class Wake { kWoken, kInterrupted, kLeave };
  virtual Wake wait() = 0;
  virtual void wake() = 0;  // any thread
};

}  // namespace kvik
