#pragma once

#include <string>
#include <string_view>

namespace kvik {

// The space mark U+2581, which SentencePiece uses for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Appends `text` to `marked` with spaces replaced by space marks.
void append_with_space_marks(std::string_view text, std::string& marked);
std::string space_marks_to_spaces(std::string_view text);

}  // namespace kvik
