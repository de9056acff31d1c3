#pragma once

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "cli/console.h"
#include "cli/input_history.h"
#include "cli/key_source.h"
#include "cli/line_editor.h"
#include "host/progress_bar.h"

namespace kvik {

// What is sent to a terminal that takes colours.
enum class Colour { kOff, kOn };

// kOn where this is a terminal that knows more than letters, and NO_COLOR is not set.
Colour colour_of(FILE* output);

// Writes model or other foreign text in a style: as it is into a file, harmless to a terminal.
// False where the system refused.
bool write_styled(FILE* output, std::string_view text, TextStyle style, Colour colour);

// The chat's console over the process's own terminal and signals. Answers go to stdout; the rest
// too, unless that is no terminal: then to stderr.
class TerminalConsole final : public Console {
 public:
  // history_file: empty keeps none.
  explicit TerminalConsole(const std::string& history_file);

  Input read(Prompt prompt) override;
  void remember(const std::string& input) override;
  void write(std::string_view text, TextStyle style) override;
  void show_progress(uint32_t n_done, uint32_t n_all) override;
  Wake wait() override;
  void wake() override;

 private:
  Input read_plain(const std::string& prompt);
  std::string prompt_text(Prompt prompt) const;

  FILE* const screen_;  // where a prompt is seen
  const Colour colour_;
  InputHistory history_;
  std::unique_ptr<LineEditor> editor_;  // null where the terminal can not move its cursor
  KeySource plain_keys_;
  ProgressBar bar_{"reading the prompt"};
  std::atomic<bool> is_refused_ = false;  // stdout took not all
};

}  // namespace kvik
