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

// Names of folders and files for pages. They reveal nothing about tokens: they are HMACs of keys
// under a secret that lies in the folder itself, readable for everyone who may read the pages. The
// first writer creates it. Any thread.
class FolderNames {
 public:
  // Borrows the folder.
  explicit FolderNames(const SharedFolder& folder) : folder_(folder) {}

  // Returns the folder of the children of a page; std::nullopt if there is no secret yet, and so no
  // pages.
  std::optional<std::string> folder_of(const PageKey& parent, uint32_t group);
  // Returns the name of a page in its folder.
  std::optional<std::string> file_of(const PageKey& key, uint32_t group);

  // Creates the secret if there is none.
  Result<void> make();
  // Reads the secret again at the next use: the folder may have been emptied, and another writer
  // may have created a new one.
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
