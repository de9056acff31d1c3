#pragma once

#include <histedit.h>
#include <termios.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/key_source.h"

namespace kvik {

// A line editor for a terminal: cursor keys, history and history search, completion by Tab, pastes
// of several lines. Editing is done by libedit. Characters come from a KeySource, including Ctrl-C,
// so no signal is raised while a line is edited.
class LineEditor {
 public:
  struct Options {
    FILE* input = stdin;
    FILE* output = stdout;
    int signal_fd = -1;
    // Returns the completions of the typed line.
    std::function<std::vector<std::string>(std::string_view typed)> complete;
  };
  explicit LineEditor(Options options);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Reads one line after `prompt`, in which \1 surrounds text without width. A signal ends the line
  // like kInterrupt; the signal stays pending.
  Console::Input read(const std::string& prompt);

  // Adds an input to the history.
  void add_history(const std::string& input);

 private:
  using Kind = Console::Input::Kind;

  static LineEditor& of(EditLine* edit);
  static wchar_t* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }
  static int next_character(EditLine* edit, wchar_t* out);
  // Key functions. They return the CC_… code of libedit's next action.
  static unsigned char leave_or_delete(EditLine* edit, wint_t key);
  static unsigned char new_line(EditLine* edit, wint_t key);
  static unsigned char paste(EditLine* edit, wint_t key);
  static unsigned char complete(EditLine* edit, wint_t key);

  void set_raw_modes();
  void bind_keys();
  // Moves the cursor to the end of the typed text, on the screen too.
  void go_to_end();
  void suspend();
  void redraw_at_new_size();
  void show(const std::vector<std::string>& choices);
  std::string line() const;

  const Options options_;
  KeySource keys_;
  std::optional<termios> found_;  // terminal modes before editing began
  EditLine* edit_;
  HistoryW* history_;
  std::wstring prompt_;
  std::optional<Kind> stopped_;  // reason why the line ended, if it was not Return
};

}  // namespace kvik
