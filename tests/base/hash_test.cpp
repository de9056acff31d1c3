#include "base/hash.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/keyed_hash.h"

namespace kvik {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string sha256_of(const std::vector<std::string>& pieces) {
  Sha256 sha;
  for (const std::string& piece : pieces) sha.add(bytes_of(piece));
  return to_hex(sha.finish());
}

// FIPS 180-2, appendix B.
TEST(Hash, sha256_gives_the_digests_of_the_standard) {
  EXPECT_EQ(sha256_of({"abc"}), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

bool has_memory = true;  // of OpenSSL

// Exits with 0 if each hash throws when OpenSSL gets no memory.
[[noreturn]] void hash_without_memory() {
  CRYPTO_set_mem_functions(
      [](size_t n, const char*, int) { return has_memory ? std::malloc(n) : nullptr; },
      [](void* p, size_t n, const char*, int) { return has_memory ? std::realloc(p, n) : nullptr; },
      [](void* p, const char*, int) { std::free(p); });
  int n_thrown = 0;
  const auto count = [&](const auto& hash) {
    try {
      hash();
    } catch (const std::bad_alloc&) {
      ++n_thrown;
    }
  };
  const auto hash_all = [&] {
    count([] { sha256_of({"abc"}); });
    count([] { keyed_hash("key", {"text"}); });
    count([] { git_blob_id("content"); });
  };
  hash_all();  // OpenSSL's own tables
  if (n_thrown > 0) _exit(2);
  has_memory = false;
  hash_all();
  _exit(n_thrown == 3 ? 0 : 1);
}

TEST(HashDeathTest, without_memory_a_hash_throws) {
  // In a process of its own: OpenSSL takes an allocator only before its first use.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hash_without_memory(), ::testing::ExitedWithCode(0), "");
}

TEST(Hash, pieces_are_one_text) { EXPECT_EQ(sha256_of({"a", "", "bc"}), sha256_of({"abc"})); }

TEST(Hash, two_lists_of_texts_never_read_the_same) {
  const auto digest = [](std::string_view a, std::string_view b) {
    Sha256 sha;
    sha.add_text(a);
    sha.add_text(b);
    return sha.finish();
  };
  EXPECT_EQ(digest("ab", "c"), digest("ab", "c"));
  EXPECT_NE(digest("ab", "c"), digest("a", "bc"));
  EXPECT_NE(digest("abc", ""), digest("", "abc"));
}

// `git hash-object` prints the same.
TEST(Hash, a_blob_has_the_name_that_git_gives_it) {
  EXPECT_EQ(git_blob_id(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(git_blob_id("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

// xxHash 0.8, doc/xxhash_spec.md: XXH3_128bits of the empty input, seed 0.
TEST(Hash, xxh3_is_the_published_one) {
  EXPECT_EQ(xxh3_128({}).high, 0x99aa06d3014798d8u);
  EXPECT_EQ(xxh3_128({}).low, 0x6001c324468d497fu);
  EXPECT_NE(xxh3_128(bytes_of("a")), xxh3_128(bytes_of("b")));
}

}  // namespace
}  // namespace kvik
