#include "kv/page_key.h"

#include <openssl/sha.h>

#include <vector>

#include "base/check.h"
#include "tensor/kv_type.h"

namespace kvik {
namespace {

PageKey sha256(std::span<const std::byte> bytes) {
  PageKey key;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(key.bytes.data()));
  return key;
}

void append_word(std::vector<std::byte>& out, uint64_t word, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; ++i) out.push_back(static_cast<std::byte>(word >> (8 * i)));
}

}  // namespace

PageKey root_key(std::string_view identity, std::string_view salt) {
  std::vector<std::byte> bytes;
  for (const std::string_view part : {identity, salt}) {
    // length prefix, so that different pairs never give the same bytes
    append_word(bytes, part.size(), sizeof(uint64_t));
    const auto text = std::as_bytes(std::span(part));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  return sha256(bytes);
}

PageKey child_key(const PageKey& parent, std::span<const TokenId> tokens) {
  CHECK(tokens.size() <= kPageTokens);
  std::array<std::byte, sizeof(PageKey) + (1 + kPageTokens) * sizeof(TokenId)> bytes;
  size_t at = sizeof(PageKey);
  std::memcpy(bytes.data(), parent.bytes.data(), at);
  const auto put = [&](uint32_t word) {
    for (size_t i = 0; i < sizeof(word); ++i) bytes[at++] = static_cast<std::byte>(word >> (8 * i));
  };
  put(static_cast<uint32_t>(tokens.size()));
  for (const TokenId token : tokens) put(token);
  return sha256(std::span(bytes).first(at));
}

}  // namespace kvik
