#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"
#include "tier/prefix_file/export_prefix.h"
#include "tier/prefix_file/import_prefix.h"
#include "tier/prefix_file/prefix_file.h"
#include "tier/stored_pages.h"

namespace kvik {

inline constexpr size_t kPageBytes = 3000;
inline constexpr size_t kTagBytes = 32;
inline constexpr size_t kRecordBytes = 512 + kPageBytes;
inline const CacheIdentity kIdentity{.model = std::string(64, 'a'),
                                     .kv_type = "int8",
                                     .layout_version = 2,
                                     .numerics = "build/glibc 2.36/"};
inline const std::string kKey = "a secret of this test";

inline std::unique_ptr<DiskTier> tier_in(const std::string& folder, uint64_t max_bytes = 64 << 20) {
  auto tier = DiskTier::open({.folder = folder, .max_bytes = max_bytes});
  CHECK(tier.has_value());
  return std::move(*tier);
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Exports pages to a file and imports it into new folders.
class PrefixFile : public ::testing::Test {
 protected:
  // Returns the pages of a sequence in all groups.
  std::vector<StoredPage> pages_of(uint32_t n_tokens, uint32_t n_groups = 1) const {
    std::vector<StoredPage> all;
    for (uint32_t group = 0; group < n_groups; ++group) {
      for (StoredPage& page : chain_of_pages(root_, n_tokens, 1, kPageBytes)) {
        page.page.group = group;
        page.bytes = bytes_of_page(page.page, kPageBytes);
        all.push_back(std::move(page));
      }
    }
    return all;
  }

  // Returns the snapshot of the first n_tokens of a sequence with these pages.
  static std::vector<StoredPage> snapshot_of(const std::vector<StoredPage>& pages,
                                             uint32_t n_tokens, uint32_t n_pages) {
    std::vector<StoredPage> snapshot;
    TierPage page = pages[(n_tokens - 1) / kPageTokens].page;
    page.tokens.resize((n_tokens - 1) % kPageTokens + 1);
    page.key = child_key(page.parent, page.tokens);
    for (uint32_t i = 0; i < n_pages; ++i) {
      page.group = kSnapshotGroup + i;
      snapshot.push_back({page, bytes_of_page(page, kPageBytes)});
    }
    return snapshot;
  }

  static std::vector<TokenId> tokens_of(const std::vector<StoredPage>& pages) {
    std::vector<TokenId> tokens;
    for (const StoredPage& page : pages) {
      if (page.page.group == 0) {
        tokens.insert(tokens.end(), page.page.tokens.begin(), page.page.tokens.end());
      }
    }
    return tokens;
  }

  Result<PrefixFileHeader> export_pages(const std::vector<StoredPage>& pages,
                                        const KvLayout& layout, std::vector<uint32_t> ends = {},
                                        const std::string& key = {}) {
    const auto tier = tier_in(folder_.path() + "/from");
    CHECK(store(*tier, pages).has_value());
    const std::vector<TokenId> tokens = tokens_of(pages);
    if (ends.empty()) ends = {static_cast<uint32_t>(tokens.size())};
    auto file = NewFile::create(path_, 0600);
    CHECK(file.has_value());
    return export_prefix(
        *tier, {.identity = kIdentity, .layout = layout, .tokens = tokens, .ends = std::move(ends)},
        std::move(*file), key);
  }

  // Imports a file into a new folder, which the caller gets.
  Result<std::unique_ptr<DiskTier>> import_file(const std::string& key = {}) {
    auto tier = tier_in(folder_.path() + "/to" + std::to_string(n_imports_++));
    TRY_ASSIGN(PrefixFileReader file, PrefixFileReader::open(path_, key));
    TRY(import_prefix(file, *tier));
    return tier;
  }

  std::string refusal(const std::string& key = {}) {
    const auto tier = import_file(key);
    return tier ? "accepted" : tier.error().message;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/a.kvp";
  const PageKey root_ = root_key(kIdentity.text(), "");
  int n_imports_ = 0;
};

}  // namespace kvik
