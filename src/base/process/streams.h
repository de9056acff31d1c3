#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <type_traits>

#include "base/printable.h"

// The process's standard streams. Nothing else writes to stdout, and only the log and the
// terminal's line editor write to stderr. A stream that is closed, full or broken causes no
// exception and ends nothing; errors of stdout are recorded for the exit code. Any thread.
namespace kvik::streams {

// Occupies descriptors 0, 1 and 2 if they are closed, so that no file opened later receives data
// meant for them; using them still fails. Call before anything is opened.
void reserve_standard_descriptors();

// Writes bytes to stdout unchanged.
void write(std::string_view bytes);

// Writes a report to stdout, made printable; its line breaks remain.
void print_text(std::string_view text);

// Returns a text made printable as an argument of print(), and anything else unchanged.
template <class Value>
decltype(auto) shown(const Value& value) {
  if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    return Printable(std::string_view(value));
  } else {
    return (value);
  }
}
// Formats and writes a report; text arguments are made printable in one line.
template <class... Values>
void print(fmt::format_string<const Values&...> format, const Values&... values) {
  print_text(fmt::vformat(format, fmt::make_format_args(shown(values)...)));
}

// Writes a line to stderr, made printable. Ignores errors.
void print_error(std::string_view sentence);

// Writes bytes to stdout or stderr unchanged and flushes. Returns 0 or an errno.
int write_now(std::FILE* stream, std::string_view bytes);

// Flushes stdout; returns the errno of its first failed write, or 0.
int flush();

// Returns the exit code at the end of the process. If stdout did not take all output of a
// successful run, it is `failed` and a line says why, unless the reader has left, as `| head` does.
int finish(int exit_code, int failed);

}  // namespace kvik::streams
