#include "cli/line_editor.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include <algorithm>
#include <clocale>
#include <csignal>

#include "base/check.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace kvik {
namespace {

constexpr char32_t kCtrlC = 3;
constexpr char32_t kCtrlZ = 26;
constexpr int kMaxHistory = 100'000;
constexpr std::string_view kPasteOn = "\033[?2004h";
constexpr std::string_view kPasteOff = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// Selects a UTF-8 locale. libedit uses the locale for the width and the encoding of characters; in
// many containers it is not UTF-8, although the terminal is.
void select_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::wstring to_wide(std::string_view text) {
  std::wstring out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    out += static_cast<wchar_t>(step.kind == Utf8Step::Kind::kValid ? step.code_point : 0xFFFD);
    at += step.n_bytes;
  }
  return out;
}

std::string to_utf8(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) append_utf8(static_cast<char32_t>(c), out);
  return out;
}

std::string common_beginning(const std::vector<std::string>& texts) {
  std::string common = texts.front();
  for (const std::string& text : texts) {
    const auto end = std::ranges::mismatch(common, text).in1;
    common.erase(end, common.end());
  }
  return common;
}

// Returns the number of rows from the first to the last row of this text in a window of n_columns.
int rows_below(std::wstring_view text, int n_columns) {
  int row = 0, column = 0;
  bool is_escape = false;
  for (const wchar_t c : text) {
    if (c == L'\1') is_escape = !is_escape;
    if (is_escape || c == L'\1') continue;
    const int width = std::max(::wcwidth(c), 0);
    if (c == L'\n' || column + width > n_columns) {
      ++row;
      column = 0;
    }
    column += width;
  }
  return column >= n_columns ? row + 1 : row;
}

}  // namespace

LineEditor::LineEditor(Options options)
    : options_(std::move(options)), keys_(::fileno(options_.input), options_.signal_fd) {
  select_utf8_locale();
  set_raw_modes();
  KeySource::watch_size();
  edit_ = ::el_init("kvik", options_.input, options_.output, options_.output);
  history_ = ::history_winit();
  CHECK(edit_ && history_);
  HistEventW event;
  ::history_w(history_, &event, H_SETSIZE, kMaxHistory);
  ::el_wset(edit_, EL_CLIENTDATA, this);
  ::el_wset(edit_, EL_EDITOR, L"emacs");
  ::el_wset(edit_, EL_SIGNAL, 0);
  ::el_wset(edit_, EL_HIST, ::history_w, history_);
  ::el_wset(edit_, EL_PROMPT_ESC, &LineEditor::prompt_of, L'\1');
  ::el_wset(edit_, EL_GETCFN, &LineEditor::next_character);
  bind_keys();
  ::el_source(edit_, nullptr);  // ~/.editrc
}

LineEditor::~LineEditor() {
  ::history_wend(history_);
  ::el_end(edit_);
  if (found_) ::tcsetattr(::fileno(options_.input), TCSADRAIN, &*found_);
}

// Sets the terminal modes that libedit is configured to use between lines.
void LineEditor::set_raw_modes() {
  termios modes{};
  if (::tcgetattr(::fileno(options_.input), &modes) != 0) return;
  if (!found_) found_ = modes;
  modes = *found_;
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  ::tcsetattr(::fileno(options_.input), TCSADRAIN, &modes);
}

void LineEditor::bind_keys() {
  // Ctrl-C and Ctrl-Z arrive as characters, in order. libedit shows its prompt before it is ready;
  // keys that are typed before that, or between lines, must be processed as keys too.
  ::el_wset(edit_, EL_SETTY, L"-d", L"-isig", nullptr);
  ::el_wset(edit_, EL_SETTY, L"-x", L"-echo", L"-icanon", nullptr);
  ::el_wset(edit_, EL_ADDFN, L"kvik-leave-or-delete", L"", &LineEditor::leave_or_delete);
  ::el_wset(edit_, EL_ADDFN, L"kvik-new-line", L"", &LineEditor::new_line);
  ::el_wset(edit_, EL_ADDFN, L"kvik-paste", L"", &LineEditor::paste);
  ::el_wset(edit_, EL_ADDFN, L"kvik-complete", L"", &LineEditor::complete);
  constexpr const wchar_t* kKeys[][2] = {
      {L"^D", L"kvik-leave-or-delete"}, {L"\\e\\n", L"kvik-new-line"},  // Alt-Enter
      {L"\\e\\r", L"kvik-new-line"},    {L"\\e[200~", L"kvik-paste"},
      {L"\\t", L"kvik-complete"},       {L"^R", L"em-inc-search-prev"},
      {L"^W", L"ed-delete-prev-word"},  {L"\\e[3~", L"ed-delete-next-char"},
      {L"\\e[1~", L"ed-move-to-beg"},   {L"\\e[4~", L"ed-move-to-end"},
      {L"\\e[H", L"ed-move-to-beg"},    {L"\\e[F", L"ed-move-to-end"},
      {L"\\eOH", L"ed-move-to-beg"},    {L"\\eOF", L"ed-move-to-end"},
      {L"\\e[1;5D", L"ed-prev-word"},                                    // Ctrl-Left
      {L"\\e[1;5C", L"em-next-word"},   {L"\\e[1;3D", L"ed-prev-word"},  // Alt-Left
      {L"\\e[1;3C", L"em-next-word"},
  };
  for (const auto& [key, function] : kKeys) ::el_wset(edit_, EL_BIND, key, function, nullptr);
}

LineEditor& LineEditor::of(EditLine* edit) {
  void* self = nullptr;
  ::el_wget(edit, EL_CLIENTDATA, &self);
  return *static_cast<LineEditor*>(self);
}

std::string LineEditor::line() const {
  const LineInfoW* info = ::el_wline(edit_);
  return to_utf8(std::wstring_view(info->buffer, info->lastchar));
}

Console::Input LineEditor::read(const std::string& prompt) {
  prompt_ = to_wide(prompt);
  stopped_.reset();
  std::fwrite(kPasteOn.data(), 1, kPasteOn.size(), options_.output);
  std::fflush(options_.output);
  int n_read = 0;
  const wchar_t* typed = ::el_wgets(edit_, &n_read);
  std::string text = stopped_ ? line() : std::string();
  if (!stopped_ && (!typed || n_read <= 0)) stopped_ = Kind::kEnd;
  if (!stopped_) text = to_utf8(std::wstring_view(typed, static_cast<size_t>(n_read)));
  if (text.ends_with('\n')) text.pop_back();
  if (stopped_) std::fputs("\n", options_.output);
  std::fwrite(kPasteOff.data(), 1, kPasteOff.size(), options_.output);
  std::fflush(options_.output);
  if (stopped_) ::el_reset(edit_);
  return {.kind = stopped_.value_or(Kind::kLine), .text = std::move(text)};
}

void LineEditor::add_history(const std::string& input) {
  HistEventW event;
  ::history_w(history_, &event, H_ENTER, to_wide(input).c_str());
}

int LineEditor::next_character(EditLine* edit, wchar_t* out) {
  LineEditor& self = of(edit);
  for (;;) {
    const KeySource::Key key = self.keys_.next();
    switch (key.kind) {
      case KeySource::Kind::kResized:
        self.redraw_at_new_size();
        continue;
      case KeySource::Kind::kSignal:
        self.stopped_ = Kind::kInterrupt;
        return -1;
      case KeySource::Kind::kEnd:
        self.stopped_ = Kind::kEnd;
        return -1;
      case KeySource::Kind::kCharacter:
        break;
    }
    if (key.character == kCtrlC) {
      self.go_to_end();  // otherwise "^C" would overwrite typed text
      std::fputs("^C", self.options_.output);
      self.stopped_ = Kind::kInterrupt;
      return -1;
    }
    if (key.character == kCtrlZ) {
      self.suspend();
      continue;
    }
    *out = static_cast<wchar_t>(key.character);
    return 1;
  }
}

void LineEditor::go_to_end() {
  const LineInfoW* info = ::el_wline(edit_);
  ::el_cursor(edit_, static_cast<int>(info->lastchar - info->cursor));
  ::el_wset(edit_, EL_REFRESH);
}

// Restores the terminal modes for the shell, and sets ours again when the process continues.
void LineEditor::suspend() {
  ::el_wset(edit_, EL_PREP_TERM, 0);
  if (found_) ::tcsetattr(::fileno(options_.input), TCSADRAIN, &*found_);
  ::raise(SIGTSTP);
  set_raw_modes();
  ::el_wset(edit_, EL_PREP_TERM, 1);
  ::el_wset(edit_, EL_REFRESH);
}

// Redraws the line after a change of the window size. The terminal has rewrapped the line itself;
// libedit does not know this and would draw a second line below the first.
void LineEditor::redraw_at_new_size() {
  winsize size{};
  const LineInfoW* info = ::el_wline(edit_);
  if (::ioctl(::fileno(options_.output), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    const int n_rows = rows_below(prompt_ + std::wstring(info->buffer, info->cursor), size.ws_col);
    if (n_rows > 0) std::fprintf(options_.output, "\033[%dA", n_rows);
    std::fputs("\r\033[J", options_.output);
    std::fflush(options_.output);
  }
  ::el_resize(edit_);
  ::el_wset(edit_, EL_REFRESH);
}

unsigned char LineEditor::leave_or_delete(EditLine* edit, wint_t) {
  const LineInfoW* info = ::el_wline(edit);
  if (info->lastchar == info->buffer) {
    of(edit).stopped_ = Kind::kEnd;
    return CC_EOF;
  }
  if (info->cursor == info->lastchar) return CC_NORM;
  ::el_cursor(edit, 1);
  ::el_deletestr(edit, 1);
  return CC_REFRESH;
}

unsigned char LineEditor::new_line(EditLine* edit, wint_t) {
  return ::el_winsertstr(edit, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

// Inserts pasted lines as one message.
unsigned char LineEditor::paste(EditLine* edit, wint_t) {
  std::wstring text;
  wchar_t c = 0;
  while (!text.ends_with(kPasteEnd)) {
    if (next_character(edit, &c) != 1) return CC_EOF;
    text += c;
  }
  text.resize(text.size() - kPasteEnd.size());
  std::string clean;
  for (char d : to_utf8(text)) {
    if (d == '\r') d = '\n';  // terminals send line breaks as '\r'
    clean += d;
  }
  while (clean.ends_with('\n')) clean.pop_back();
  const std::wstring wide = to_wide(printable(clean, Breaks::kKept));
  if (!wide.empty() && ::el_winsertstr(edit, wide.c_str()) != 0) return CC_ERROR;
  return CC_REFRESH;
}

unsigned char LineEditor::complete(EditLine* edit, wint_t) {
  LineEditor& self = of(edit);
  const LineInfoW* info = ::el_wline(edit);
  const bool is_empty = info->lastchar == info->buffer;
  if (!self.options_.complete || is_empty || info->cursor != info->lastchar) return CC_NORM;
  const std::string typed = self.line();
  const auto choices = self.options_.complete(typed);
  if (choices.empty()) return CC_NORM;
  const std::string common = common_beginning(choices);
  if (common.size() > typed.size()) {
    ::el_winsertstr(edit, to_wide(common.substr(typed.size())).c_str());
    return CC_REFRESH;
  }
  self.show(choices);
  return CC_REDISPLAY;
}

void LineEditor::show(const std::vector<std::string>& choices) {
  std::fputs("\n", options_.output);
  for (const std::string& choice : choices) {
    std::fprintf(options_.output, "  %s", choice.c_str());
  }
  std::fputs("\n", options_.output);
}

}  // namespace kvik
