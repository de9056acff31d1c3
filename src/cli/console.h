#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// Style of printed text: answers, everything else, and errors.
enum class TextStyle { kPlain, kDim, kError };

// The input and output of a chat: a terminal, or a fake in tests. Called by the chat's thread,
// except where noted.
class Console {
 public:
  virtual ~Console() = default;

  // One typed line or several pasted ones, without the final line break, in valid UTF-8. For
  // kInterrupt, `text` is the discarded input; kEnd is the end of all input.
  struct Input {
    enum class Kind { kLine, kInterrupt, kEnd };
    Kind kind = Kind::kLine;
    std::string text = {};
  };
  enum class Prompt { kFirst, kMore };  // kMore: continues an incomplete input
  virtual Input read(Prompt prompt) = 0;

  // Adds an input to the history of the arrow keys.
  virtual void remember(const std::string& input) = 0;

  // Writes text. Any thread, one at a time. Implementations must keep control sequences from
  // reaching a terminal.
  virtual void write(std::string_view text, TextStyle style) = 0;
  // Shows the number of processed prompt tokens; the next write() replaces it. Any thread.
  virtual void show_progress(uint32_t n_done, uint32_t n_all) = 0;

  // Waits for wake() or for the user to interrupt the answer or leave the program. May return
  // kWoken spuriously.
  enum class Wake { kWoken, kInterrupted, kLeave };
  virtual Wake wait() = 0;
  virtual void wake() = 0;  // any thread
};

}  // namespace kvik
