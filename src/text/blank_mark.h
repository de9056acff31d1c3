#pragma once

#include <string>
#include <string_view>

namespace kvik {

// U+2581, which SentencePiece uses for a space
inline constexpr std::string_view kBlankMark = "\xE2\x96\x81";

void append_with_blank_marks(std::string_view text, std::string& marked);
std::string blank_marks_to_blanks(std::string_view text);

}  // namespace kvik
