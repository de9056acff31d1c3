#include "tier/folder_names.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <span>
#include <string_view>

#include "base/keyed_hash.h"

namespace kvik {
namespace {

constexpr const char* kSecretFile = "names.key";
constexpr size_t kNameBytes = 16;  // of an HMAC, so that names never collide

}  // namespace

std::optional<FolderNames::Secret> FolderNames::secret() {
  const MutexLock lock(mutex_);
  if (secret_) return secret_;
  Secret found;
  if (folder_.read(kSecretFile, found) == SharedFolder::Read::kDone) secret_ = found;
  return secret_;
}

Result<void> FolderNames::make() {
  if (secret()) return {};
  Secret made;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(made.data()), static_cast<int>(made.size())) != 1)
    return fail(ErrorCode::kIo, "cannot get random bytes");
  TRY(folder_.write_once(kSecretFile, made));
  if (secret()) return {};
  return fail(ErrorCode::kIo, fmt::format("'{}/{}' cannot be read", folder_.path(), kSecretFile));
}

void FolderNames::forget() {
  const MutexLock lock(mutex_);
  secret_.reset();
}

std::optional<std::string> FolderNames::name_of(const char* kind, const PageKey& key,
                                                uint32_t group) {
  const auto found = secret();
  if (!found) return std::nullopt;
  const std::string_view bytes(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
  const std::string_view by(reinterpret_cast<const char*>(found->data()), found->size());
  const Sha256Digest digest = keyed_hash(by, {kind, bytes, std::to_string(group)});
  return to_hex(std::span(digest).first(kNameBytes));
}

std::optional<std::string> FolderNames::folder_of(const PageKey& parent, uint32_t group) {
  const auto name = name_of("next", parent, group);
  if (!name) return std::nullopt;
  return fmt::format("{}/{}", std::string_view(*name).substr(0, 2), *name);
}

std::optional<std::string> FolderNames::file_of(const PageKey& key, uint32_t group) {
  return name_of("page", key, group);
}

}  // namespace kvik
