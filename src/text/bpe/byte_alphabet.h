#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Byte-level BPE writes each byte as one printable character: bytes that are printable in Latin-1
// stand for themselves, the others are numbered from U+0100 up, so that a blank is "Ġ" (GPT-2's
// bytes_to_unicode).

// That character, in UTF-8.
std::string byte_to_letter(uint8_t byte);

// The bytes that `letters` spell; nothing where a character is not of the alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);

}  // namespace kvik
