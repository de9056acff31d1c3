#pragma once

#include <cstddef>
#include <string_view>

namespace kvik {

// Cutting a text into words takes up to 32 bytes for each of its own, so a long one is cut window
// by window. Windows end at seams: places where the pre-tokenizer begins a new word, whatever
// stands farther off, so that the words are those of the whole text. A window ends at the last seam
// within so many bytes, else at the first one behind them.
inline constexpr size_t kWindowBytes = size_t{128} << 10;

enum class WindowEnds { kBlanks, kLines, kNone };

// Whether a window may end before text[at], 0 < at < text.size(): where a newline has something
// else than a blank before it and a letter behind it, and with kBlanks before a blank between two
// letters of ASCII; with kNone nowhere.
bool is_seam(std::string_view text, size_t at, WindowEnds ends);

// The bytes of the first window.
size_t n_window_bytes(std::string_view text, WindowEnds ends);

}  // namespace kvik
