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

// Controls color output.
enum class Color { kOff, kOn };

// Returns kOn if `output` is a terminal other than "dumb" and NO_COLOR is not set.
Color color_of(FILE* output);

// Writes untrusted text, such as model output, in a style. Text for a terminal is sanitized; text
// for a file is unchanged. Returns false if the write failed.
bool write_styled(FILE* output, std::string_view text, TextStyle style, Color color);

// Implements Console on the process's terminal and signals. Answers go to stdout. Everything else
// goes to stdout too if it is a terminal, otherwise to stderr.
class TerminalConsole final : public Console {
 public:
  // history_file: path of the input history; empty: none.
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

  FILE* const screen_;  // stream of the input prompt
  const Color color_;
  InputHistory history_;
  std::unique_ptr<LineEditor> editor_;  // null: the terminal cannot move its cursor
  KeySource plain_keys_;
  ProgressBar bar_{"reading the prompt"};
  std::atomic<bool> has_write_failed_ = false;  // a write to stdout failed
};

}  // namespace kvik
