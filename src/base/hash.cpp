#include "base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <xxhash.h>

#include <string>

#include "base/keyed_hash.h"
#include "base/process/memory_reserve.h"

namespace kvik {
namespace {

// OpenSSL computes these hashes unless memory is exhausted: it allocates the state of each.
void require(bool is_done) {
  if (!is_done) throw_bad_alloc();
}

}  // namespace

void Sha256::FreeState::operator()(void* state) const {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state));
}

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  require(state_ != nullptr);
  require(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_.get()), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  auto* state = static_cast<EVP_MD_CTX*>(state_.get());
  require(EVP_DigestUpdate(state, bytes.data(), bytes.size()) == 1);
}

void Sha256::add_number(uint64_t number) {
  std::array<std::byte, sizeof(number)> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  add(bytes);
}

void Sha256::add_text(std::string_view text) {
  add_number(text.size());
  add(std::as_bytes(std::span(text)));
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  auto* state = static_cast<EVP_MD_CTX*>(state_.get());
  require(EVP_DigestFinal_ex(state, reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1);
  return digest;
}

std::string git_blob_id(std::string_view content) {
  const std::string head = fmt::format("blob {}", content.size());
  std::array<std::byte, 20> digest;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state(EVP_MD_CTX_new(),
                                                                      EVP_MD_CTX_free);
  require(state != nullptr);
  require(EVP_DigestInit_ex(state.get(), EVP_sha1(), nullptr) == 1);
  require(EVP_DigestUpdate(state.get(), head.c_str(), head.size() + 1) == 1);  // with its NUL
  require(EVP_DigestUpdate(state.get(), content.data(), content.size()) == 1);
  require(EVP_DigestFinal_ex(state.get(), reinterpret_cast<unsigned char*>(digest.data()),
                             nullptr) == 1);
  return to_hex(digest);
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Hash128 xxh3_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Sha256Digest keyed_hash(std::string_view key, std::initializer_list<std::string_view> texts) {
  std::string bytes;
  for (const std::string_view text : texts) {
    const uint64_t size = text.size();
    for (size_t i = 0; i < sizeof(size); ++i) bytes.push_back(static_cast<char>(size >> (8 * i)));
    bytes += text;
  }
  Sha256Digest digest;
  unsigned n_bytes = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &n_bytes);
  require(done != nullptr && n_bytes == digest.size());
  return digest;
}

std::string_view as_text(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace kvik
