#include "kv/page_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace kvik {
namespace {

std::string hex(const PageKey& key) {
  std::string out;
  for (const std::byte b : key.bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    out += kDigits[static_cast<size_t>(b) >> 4];
    out += kDigits[static_cast<size_t>(b) & 15];
  }
  return out;
}

TEST(PageKey, is_the_sha256_of_parent_count_and_ids) {
  // The expected value is the result of this Python expression:
  // hashlib.sha256(bytes(32) + struct.pack("<4I", 3, 1, 2, 70000)).hexdigest()
  const std::vector<TokenId> tokens = {1, 2, 70000};
  EXPECT_EQ(hex(child_key(PageKey{}, tokens)),
            "4634f0ce1a6dc519330823ea6f5047693b4a1d1e0909ab7923614775ef920773");
}

TEST(PageKey, differs_by_parent_by_token_and_by_count) {
  const PageKey root = root_key("model", "");
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<TokenId> other = {1, 2, 4};
  const std::span<const TokenId> shorter = std::span(tokens).first(2);
  const std::set<std::string> keys = {hex(root), hex(child_key(root, tokens)),
                                      hex(child_key(root, other)), hex(child_key(root, shorter)),
                                      hex(child_key(child_key(root, tokens), tokens))};
  EXPECT_EQ(keys.size(), 5u);
}

TEST(PageKey, the_root_differs_by_identity_and_by_salt_and_knows_where_one_ends) {
  const std::set<std::string> keys = {hex(root_key("model", "")), hex(root_key("model", "salt")),
                                      hex(root_key("models", "alt")),
                                      hex(root_key("", "modelsalt"))};
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_EQ(root_key("model", "salt"), root_key("model", "salt"));
}

}  // namespace
}  // namespace kvik
