#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// The byte alphabet of byte-level BPE, in which each byte is one printable character (GPT-2's
// bytes_to_unicode). A byte that is printable in Latin-1 is that character; the others are numbered
// from U+0100, so that a space becomes "Ġ".

// Returns the character of a byte in UTF-8.
std::string byte_to_letter(uint8_t byte);

// Returns the bytes that are written as `letters`; std::nullopt if a character is not in the
// alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);

}  // namespace kvik
