#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Byte-level BPE writes each byte as one printable character: a byte that is printable in Latin-1
// is that character, the others are numbered from U+0100, so that a space becomes "Ġ" (GPT-2's
// bytes_to_unicode).

// The character of a byte, in UTF-8.
std::string byte_to_letter(uint8_t byte);

// The bytes written as `letters`; nullopt if a character is not in the alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);

}  // namespace kvik
