#include "base/keyed_hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

#include "base/check.h"

namespace kvik {

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
  CHECK(done != nullptr && n_bytes == digest.size());
  return digest;
}

std::string_view as_text(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace kvik
