#pragma once

#include <cstddef>
#include <string_view>

namespace kvik {

// The usual maximum size of a window. Splitting a text into words takes up to 32 bytes of memory
// per byte, so a long text is split in windows. A window ends at a position where the pre-tokenizer
// begins a new word regardless of distant text, so that the words are those of the whole text. This
// is the last such position within kWindowBytes, otherwise the first one after it.
inline constexpr size_t kWindowBytes = size_t{128} << 10;

enum class WindowEnds { kBlanks, kLines, kNone };

// Returns whether a window may end before text[at], 0 < at < text.size(). With kLines this is
// between a newline that does not follow whitespace and a letter, with kBlanks also before a space
// between two ASCII letters, with kNone nowhere.
bool is_split_point(std::string_view text, size_t at, WindowEnds ends);

// Returns the size of the first window in bytes.
size_t n_window_bytes(std::string_view text, WindowEnds ends);

}  // namespace kvik
