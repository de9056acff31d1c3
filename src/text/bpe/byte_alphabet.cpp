#include "text/bpe/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace kvik {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    letters[byte] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return letters;
}

constexpr std::array<char32_t, 256> kLetters = make_letters();
constexpr char32_t kLastLetter = 0x143;  // 68 bytes are mapped to characters from U+0100

constexpr std::array<int16_t, kLastLetter + 1> make_bytes() {
  std::array<int16_t, kLastLetter + 1> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kLetters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, kLastLetter + 1> kBytes = make_bytes();

}  // namespace

std::string byte_to_letter(uint8_t byte) {
  const char32_t letter = kLetters[byte];
  if (letter < 0x80) return std::string(1, static_cast<char>(letter));
  return {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
}

std::optional<std::string> letters_to_bytes(std::string_view letters) {
  std::string bytes;
  for (size_t at = 0; at < letters.size();) {
    const Utf8Step step = next_utf8(letters, at);
    if (step.kind != Utf8Step::Kind::kValid || step.code_point > kLastLetter) return std::nullopt;
    const int16_t byte = kBytes[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    at += step.n_bytes;
  }
  return bytes;
}

}  // namespace kvik
