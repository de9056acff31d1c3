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

// A line in a terminal with what hands expect: cursor keys, a history, search in it, completion by
// Tab, pastes of several lines. libedit does the editing; characters come from a KeySource, and
// with them Ctrl-C, so that no signal arrives while a line is edited.
class LineEditor {
 public:
  struct Options {
    FILE* input = stdin;
    FILE* output = stdout;
    int signal_fd = -1;
    // Every line that the typed one could become.
    std::function<std::vector<std::string>(std::string_view typed)> complete;
  };
  explicit LineEditor(Options options);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // One line behind `prompt`, in which \1 stands around what has no width. A signal ends it as
  // kInterrupt does, and is left to be read.
  Console::Input read(const std::string& prompt);

  // Up finds it.
  void add_history(const std::string& input);

 private:
  using Kind = Console::Input::Kind;

  static LineEditor& of(EditLine* edit);
  static wchar_t* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }
  static int next_character(EditLine* edit, wchar_t* out);
  // Keys of ours: CC_… say what libedit does next.
  static unsigned char leave_or_delete(EditLine* edit, wint_t key);
  static unsigned char new_line(EditLine* edit, wint_t key);
  static unsigned char paste(EditLine* edit, wint_t key);
  static unsigned char complete(EditLine* edit, wint_t key);

  void quiet_terminal();
  void bind_keys();
  // Moves the cursor past what is typed, on the screen too.
  void go_to_end();
  void suspend();
  void redraw_at_new_size();
  void show(const std::vector<std::string>& choices);
  std::string line() const;

  const Options options_;
  KeySource keys_;
  std::optional<termios> found_;  // the terminal's modes before this
  EditLine* edit_;
  HistoryW* history_;
  std::wstring prompt_;
  std::optional<Kind> stopped_;  // why the line ended, where no Return ended it
};

}  // namespace kvik
