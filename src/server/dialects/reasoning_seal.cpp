#include "server/dialects/reasoning_seal.h"

#include "base/hash.h"

#include <charconv>

namespace kvik {
namespace {

constexpr std::string_view kPrefix = "kvik1.";
constexpr size_t kSignatureBytes = 64;  // in hexadecimal digits

}  // namespace

std::string reasoning_signature(std::string_view model, std::string_view reasoning) {
  Sha256 hash;
  hash.add_text("kvik thought");
  hash.add_text(model);
  hash.add_text(reasoning);
  return to_hex(hash.finish());
}

std::string encode_reasoning(std::string_view model, std::string_view reasoning) {
  std::string word(kPrefix);
  word += reasoning_signature(model, reasoning);
  word += to_hex(std::as_bytes(std::span(reasoning)));
  return word;
}

std::optional<std::string> decode_reasoning(std::string_view model, std::string_view word) {
  if (!word.starts_with(kPrefix) || word.size() < kPrefix.size() + kSignatureBytes)
    return std::nullopt;
  const std::string_view signature = word.substr(kPrefix.size(), kSignatureBytes);
  const std::string_view digits = word.substr(kPrefix.size() + kSignatureBytes);
  std::string reasoning;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    uint8_t byte = 0;
    const char* const end = digits.data() + i + 2;
    const auto [rest, error] = std::from_chars(digits.data() + i, end, byte, 16);
    if (error != std::errc() || rest != end) return std::nullopt;
    reasoning += static_cast<char>(byte);
  }
  if (digits.size() % 2 != 0 || reasoning_signature(model, reasoning) != signature)
    return std::nullopt;
  return reasoning;
}

}  // namespace kvik
