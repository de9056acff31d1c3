#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "kv/page_key.h"
#include "tier/shared_folder.h"

namespace kvik {

// Names of folders and files for pages, which tell nothing of tokens: HMACs of keys under a secret
// that lies in the folder itself, readable for those who may read the pages. The first writer makes
// it. Any thread.
class FolderNames {
 public:
  // The folder is borrowed.
  explicit FolderNames(const SharedFolder& folder) : folder_(folder) {}

  // The folder of the pages that follow a parent. std::nullopt where there is no secret yet: then
  // there are no pages either.
  std::optional<std::string> folder_of(const PageKey& parent, uint32_t group);
  // The name of a page in its folder.
  std::optional<std::string> file_of(const PageKey& key, uint32_t group);

  // Makes the secret where there is none.
  Result<void> make();
  // Has the secret read again: the folder may have been emptied, and another writer have made one.
  void forget();

 private:
  using Secret = std::array<std::byte, 32>;
  std::optional<Secret> secret();
  std::optional<std::string> name_of(const char* kind, const PageKey& key, uint32_t group);

  const SharedFolder& folder_;
  Mutex mutex_;
  std::optional<Secret> secret_ GUARDED_BY(mutex_);
};

}  // namespace kvik
