#include "main/terminal_console.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/process/interrupts.h"
#include "base/process/streams.h"
#include "base/utf8.h"
#include "cli/chat_commands.h"
#include "main/environment.h"

namespace kvik {
namespace {

bool is_terminal(FILE* file) { return ::isatty(::fileno(file)) == 1; }

bool moves_its_cursor() {
  const std::string term = environment("TERM");
  return !term.empty() && term != "dumb";
}

}  // namespace

Color color_of(FILE* output) {
  const bool wanted = environment("NO_COLOR").empty() && moves_its_cursor();
  return wanted && is_terminal(output) ? Color::kOn : Color::kOff;
}

bool write_styled(FILE* output, std::string_view text, TextStyle style, Color color) {
  std::string out = is_terminal(output) ? printable(text, Breaks::kKept) : std::string(text);
  if (color == Color::kOn && style != TextStyle::kPlain) {
    out = fmt::format("\033[{}m{}\033[0m", style == TextStyle::kDim ? "2" : "31", out);
  }
  return streams::write_now(output, out) == 0;
}

TerminalConsole::TerminalConsole(const std::string& history_file)
    : screen_(is_terminal(stdout) ? stdout : stderr),
      color_(color_of(screen_)),
      history_(history_file),
      plain_keys_(STDIN_FILENO, Interrupts::signal_fd()) {
  if (!moves_its_cursor() || !is_terminal(screen_)) return;
  editor_ = std::make_unique<LineEditor>(LineEditor::Options{
      .output = screen_, .signal_fd = Interrupts::signal_fd(), .complete = completions});
  for (const std::string& input : history_.inputs()) editor_->add_history(input);
}

std::string TerminalConsole::prompt_text(Prompt prompt) const {
  const std::string_view text = prompt == Prompt::kFirst ? ">>>" : "...";
  if (color_ == Color::kOff) return fmt::format("{} ", text);
  // libedit drops zero-width text at the end of a prompt, so the blank follows the escape sequence.
  return fmt::format("\1\033[1;36m\1{}\1\033[0m\1 ", text);
}

Console::Input TerminalConsole::read(Prompt prompt) {
  if (has_write_failed_) return {.kind = Input::Kind::kEnd};
  const std::string text = prompt_text(prompt);
  Input input = editor_ ? editor_->read(text) : read_plain(text);
  if (input.kind == Input::Kind::kInterrupt) Interrupts::take();
  if (Interrupts::is_terminated()) input.kind = Input::Kind::kEnd;
  return input;
}

Console::Input TerminalConsole::read_plain(const std::string& prompt) {
  if (is_terminal(screen_)) {
    streams::write_now(screen_, prompt);
  }
  Input input;
  for (;;) {
    const KeySource::Key key = plain_keys_.next();
    if (key.kind == KeySource::Kind::kResized) continue;
    if (key.kind != KeySource::Kind::kCharacter) {
      input.kind =
          key.kind == KeySource::Kind::kSignal ? Input::Kind::kInterrupt : Input::Kind::kEnd;
      if (is_terminal(screen_)) streams::write_now(screen_, "\n");
      return input;
    }
    if (key.character == '\n') return input;
    append_utf8(key.character, input.text);
  }
}

void TerminalConsole::remember(const std::string& input) {
  if (history_.add(input) && editor_) editor_->add_history(input);
}

void TerminalConsole::write(std::string_view text, TextStyle style) {
  bar_.show(1, 1, "");  // removes the progress bar
  FILE* const output = style == TextStyle::kPlain ? stdout : screen_;
  const Color color = output == screen_ ? color_ : Color::kOff;
  if (write_styled(output, text, style, color) || output != stdout) return;
  has_write_failed_ = true;
  wake();
}

void TerminalConsole::show_progress(uint32_t n_done, uint32_t n_all) {
  bar_.show(n_done, n_all, fmt::format("{} of {} tokens", n_done, n_all));
}

Console::Wake TerminalConsole::wait() {
  const bool is_signal = Interrupts::wait();
  if (Interrupts::is_terminated() || has_write_failed_) return Wake::kLeave;
  return is_signal ? Wake::kInterrupted : Wake::kWoken;
}

void TerminalConsole::wake() { Interrupts::notify(); }

}  // namespace kvik
