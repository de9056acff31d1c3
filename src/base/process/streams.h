#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <type_traits>

#include "base/printable.h"

// The process's standard streams: nothing else writes to stdout, and to stderr only the log and
// what edits a terminal's line. A stream that is closed, full or broken throws nothing and ends
// nothing; of stdout it is remembered, so that the exit code can tell. Any thread.
namespace kvik::streams {

// Descriptors 0, 1 and 2 that the caller closed are taken, so that no file that is opened later
// gets what is meant for them; reading and writing them goes on to fail. Before anything is opened.
void hold_places();

// Bytes to stdout as they are: numbers.
void write(std::string_view bytes);

// A report to stdout, whose lines are ours: it is made printable.
void print_text(std::string_view text);

// A text as a value of print(); anything else as it is.
template <class Value>
decltype(auto) shown(const Value& value) {
  if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    return Printable(std::string_view(value));
  } else {
    return (value);
  }
}
// The same of a format of ours and values, of which a text stays in its line.
template <class... Values>
void print(fmt::format_string<const Values&...> format, const Values&... values) {
  print_text(fmt::vformat(format, fmt::make_format_args(shown(values)...)));
}

// One line to stderr, printable. Where that fails there is nobody to tell.
void complain(std::string_view sentence);

// Bytes to stdout or stderr as they are, and at once. 0, or the errno that the system refused with.
int write_now(std::FILE* stream, std::string_view bytes);

// Writes what stdout still holds back; the errno of the first write to it that failed, 0: all went
// well.
int flush();

// At the end of the process: the exit code. Where stdout did not take all that a success printed it
// becomes `failed` and a line says why, except where the reader left, as `| head` does.
int finish(int exit_code, int failed);

}  // namespace kvik::streams
