#include "tier/prefix_file/prefix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tier/page_record.h"
#include "tier/prefix_file/prefix_file_fixture.h"

// Tests that a prefix taken to another tier has the same pages there, and that no other file gives
// any other page.
namespace kvik {
namespace {

using ::testing::HasSubstr;

TEST_F(PrefixFile, pages_are_the_same_in_another_folder) {
  const auto pages = pages_of(10 * kPageTokens + 7);
  const auto header = export_pages(pages, KvLayout(kPageBytes));
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_EQ(header->n_tokens, 10 * kPageTokens + 7);
  EXPECT_EQ(header->n_records, 11u);
  const auto tier = import_file();
  ASSERT_TRUE(tier.has_value()) << tier.error().message;
  EXPECT_EQ(n_found(**tier, pages), pages.size());
  EXPECT_EQ((*tier)->size().n_pages, pages.size());
}

TEST_F(PrefixFile, imported_pages_are_found_by_every_tenant) {
  const auto pages = pages_of(3 * kPageTokens);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes)).has_value());
  const auto tier = import_file();
  ASSERT_TRUE(tier.has_value());
  EXPECT_EQ(look_up(**tier, pages[2], mark_of_tenant(7)), Tier::Get::kFound);
}

TEST_F(PrefixFile, a_file_does_not_say_which_tenants_knew_a_page) {
  auto pages = pages_of(2 * kPageTokens);
  for (StoredPage& page : pages) page.page.known = mark_of_tenant(7);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes)).has_value());
  auto file = PrefixFileReader::open(path_, "");
  ASSERT_TRUE(file.has_value());
  std::vector<std::byte> record(kRecordBytes);
  EXPECT_EQ((*file->next(record))->known, SharingMark::kNoTenant);
}

TEST_F(PrefixFile, windowed_groups_have_the_pages_before_each_end) {
  const KvLayout layout(kPageBytes, {GroupRule(), GroupRule::of_window(64)});
  const auto pages = pages_of(20 * kPageTokens, 2);
  ASSERT_TRUE(export_pages(pages, layout, {10 * kPageTokens + 5, 20 * kPageTokens}).has_value());
  const auto tier = import_file();
  ASSERT_TRUE(tier.has_value()) << tier.error().message;
  std::set<size_t> windowed;
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(look_up(**tier, pages[i]), Tier::Get::kFound) << i;
    if (look_up(**tier, pages[20 + i]) == Tier::Get::kFound) windowed.insert(i);
  }
  EXPECT_EQ(windowed, (std::set<size_t>{8, 9, 18, 19}));
}

TEST_F(PrefixFile, a_recurrent_model_gets_the_last_snapshot_before_each_end) {
  KvLayout layout(kPageBytes);
  layout.state_bytes = 2 * kPageBytes - 100;
  auto pages = pages_of(20 * kPageTokens + 9);
  const std::vector<StoredPage> chain = pages;
  std::vector<std::vector<StoredPage>> snapshots;
  for (const uint32_t at : {100u, 5 * kPageTokens, 300u, 400u, 20 * kPageTokens + 8}) {
    snapshots.push_back(snapshot_of(chain, at, 2));
    pages.insert(pages.end(), snapshots.back().begin(), snapshots.back().end());
  }
  ASSERT_TRUE(
      export_pages(pages, layout, {5 * kPageTokens, 310, 20 * kPageTokens + 9}).has_value());
  const auto tier = import_file();
  ASSERT_TRUE(tier.has_value()) << tier.error().message;
  EXPECT_EQ(n_found(**tier, chain), chain.size());
  const std::vector<size_t> wanted = {0, 2, 2, 0, 2};
  for (size_t i = 0; i < snapshots.size(); ++i) {
    EXPECT_EQ(n_found(**tier, snapshots[i]), wanted[i]) << i;
  }
}

TEST_F(PrefixFile, without_a_snapshot_a_recurrent_model_exports_nothing) {
  KvLayout layout(kPageBytes);
  layout.state_bytes = 100;
  const auto header = export_pages(pages_of(90), layout);
  ASSERT_FALSE(header.has_value());
  EXPECT_THAT(header.error().message, HasSubstr("no sequence can resume"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(PrefixFile, a_last_page_without_its_open_page_is_left_out) {
  KvLayout layout(kPageBytes);
  layout.open_page_bytes = 200;
  auto pages = pages_of(2 * kPageTokens + 9);
  const auto snapshot = snapshot_of(pages, 2 * kPageTokens + 9, 1);
  const auto without = export_pages(pages, layout);
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(without->n_tokens, 2 * kPageTokens);
  pages.insert(pages.end(), snapshot.begin(), snapshot.end());
  const auto with = export_pages(pages, layout);
  ASSERT_TRUE(with.has_value());
  EXPECT_EQ(with->n_tokens, 2 * kPageTokens + 9);
  EXPECT_EQ(with->n_records, 4u);
}

TEST_F(PrefixFile, a_missing_page_fails_the_export) {
  auto pages = pages_of(6 * kPageTokens);
  const auto tokens = tokens_of(pages);
  const auto tier = tier_in(folder_.path() + "/part");
  ASSERT_TRUE(store(*tier, std::span(pages).first(4)).has_value());
  auto file = NewFile::create(path_, 0600);
  ASSERT_TRUE(file.has_value());
  const KvLayout layout(kPageBytes);
  const auto header = export_prefix(
      *tier, {.identity = kIdentity, .layout = layout, .tokens = tokens, .ends = {192}},
      std::move(*file), "");
  ASSERT_FALSE(header.has_value());
  EXPECT_THAT(header.error().message, HasSubstr("page 5 of 6"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(PrefixFile, a_key_accepts_only_what_it_signed) {
  const auto pages = pages_of(3 * kPageTokens);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes), {}, kKey).has_value());
  EXPECT_EQ(refusal(kKey), "accepted");
  EXPECT_EQ(refusal(), "accepted");  // without a key, anybody may import it
  EXPECT_THAT(refusal("another secret"), HasSubstr("signed with another key"));
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes)).has_value());
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_THAT(refusal(kKey), HasSubstr("is not signed"));
}

// Another key holder's records, a record of the same file in another place, and a shorter file have
// right checksums.
TEST_F(PrefixFile, signed_records_cannot_be_exchanged) {
  const auto pages = pages_of(4 * kPageTokens);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes), {}, "another secret").has_value());
  const std::string other = read_bytes(path_);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes), {}, kKey).has_value());
  const std::string good = read_bytes(path_);
  const size_t n_each = kRecordBytes + kTagBytes;
  ASSERT_EQ(good.size(), kPrefixHeaderBytes + 4 * n_each);
  std::string bytes = good;
  bytes.replace(kPrefixHeaderBytes + n_each, n_each, other, kPrefixHeaderBytes + n_each, n_each);
  write_bytes(path_, bytes);
  EXPECT_THAT(refusal(kKey), HasSubstr("page 2 of 4 is not what the key signed"));
  bytes = good;
  bytes.replace(kPrefixHeaderBytes + 2 * n_each, n_each, good, kPrefixHeaderBytes, n_each);
  write_bytes(path_, bytes);
  EXPECT_THAT(refusal(kKey), HasSubstr("page 3 of 4 is not what the key signed"));
  write_bytes(path_, good.substr(0, kPrefixHeaderBytes + 3 * n_each));
  EXPECT_THAT(refusal(kKey), HasSubstr("is truncated"));
}

// Bytes that are not those that were signed, with checksums that fit.
TEST_F(PrefixFile, a_changed_page_with_a_right_checksum_needs_the_key) {
  const auto pages = pages_of(2 * kPageTokens);
  ASSERT_TRUE(export_pages(pages, KvLayout(kPageBytes), {}, kKey).has_value());
  std::string bytes = read_bytes(path_);
  const auto record =
      std::as_writable_bytes(std::span(bytes)).subspan(kPrefixHeaderBytes, kRecordBytes);
  record[600] ^= std::byte{1};
  write_record_head(pages[0].page, kPageBytes, record);
  write_bytes(path_, bytes);
  EXPECT_THAT(refusal(kKey), HasSubstr("page 1 of 2 is not what the key signed"));
}

TEST_F(PrefixFile, a_page_with_other_tokens_than_its_key_is_refused) {
  auto pages = pages_of(3 * kPageTokens);
  const KvLayout layout(kPageBytes);
  const PrefixFileHeader header{.identity = kIdentity,
                                .page_bytes = kPageBytes,
                                .n_groups = 1,
                                .n_snapshot_pages = 0,
                                .n_tokens = 3 * kPageTokens,
                                .n_records = 3,
                                .is_signed = false};
  const auto write = [&] {
    auto writer = PrefixFileWriter::begin(std::move(*NewFile::create(path_, 0600)), header, "");
    CHECK(writer.has_value());
    for (const StoredPage& page : pages) {
      std::vector<std::byte> record(512);
      record.insert(record.end(), page.bytes.begin(), page.bytes.end());
      write_record_head(page.page, kPageBytes, record);
      CHECK(writer->add(record).has_value());
    }
    CHECK(writer->commit().has_value());
  };
  write();
  EXPECT_EQ(refusal(), "accepted");
  const auto expect_refused = [&](const char* what) {
    write();
    EXPECT_THAT(refusal(), HasSubstr("does not continue the pages before it")) << what;
    pages = pages_of(3 * kPageTokens);
  };
  pages[1].page.tokens[3] ^= 1;
  expect_refused("another token");
  pages[1].page.key = pages[2].page.key;
  expect_refused("another key");
  pages[2].page.root = root_key(kIdentity.text(), "a salt");
  expect_refused("another salt");
  pages[2].page.group = 1;
  expect_refused("another group");
  std::swap(pages[1], pages[2]);
  expect_refused("another order");
  pages = chain_of_pages(root_key("another model", ""), 3 * kPageTokens, 1, kPageBytes);
  expect_refused("another model");
}

TEST_F(PrefixFile, other_files_are_refused_with_the_reason) {
  ASSERT_TRUE(export_pages(pages_of(3 * kPageTokens), KvLayout(kPageBytes)).has_value());
  const std::string good = read_bytes(path_);
  const auto refused_as = [&](const std::string& bytes) {
    write_bytes(path_, bytes);
    return refusal();
  };
  EXPECT_THAT(refused_as(""), HasSubstr("empty"));
  EXPECT_THAT(refused_as("KVIK"), HasSubstr("is not a prefix file"));
  EXPECT_THAT(refused_as(std::string(5000, 'x')), HasSubstr("is not a prefix file"));
  EXPECT_THAT(refused_as(good.substr(0, 100)), HasSubstr("is truncated"));
  EXPECT_THAT(refused_as(good.substr(0, good.size() - 1)), HasSubstr("is truncated"));
  EXPECT_THAT(refused_as(good + "x"), HasSubstr("is damaged"));
  std::string version = good;
  version[8] = 2;
  EXPECT_THAT(refused_as(version), HasSubstr("has version 2 of the format, expected 1"));
  std::string page = good;
  page[kPrefixHeaderBytes + kRecordBytes + kTagBytes + 700] ^= 1;
  EXPECT_THAT(refused_as(page), HasSubstr("is damaged: page 2 of 3 fails its checksum"));
}

// Nothing is stored before all of the file was checked.
TEST_F(PrefixFile, a_refused_file_stores_no_page) {
  ASSERT_TRUE(export_pages(pages_of(5 * kPageTokens), KvLayout(kPageBytes)).has_value());
  std::string bytes = read_bytes(path_);
  bytes[bytes.size() - 100] ^= 1;
  write_bytes(path_, bytes);
  const auto tier = tier_in(folder_.path() + "/to");
  auto file = PrefixFileReader::open(path_, "");
  ASSERT_TRUE(file.has_value());
  EXPECT_FALSE(import_prefix(*file, *tier).has_value());
  EXPECT_EQ(tier->size().n_pages, 0u);
}

TEST_F(PrefixFile, a_folder_without_room_is_reported) {
  ASSERT_TRUE(export_pages(pages_of(2000 * kPageTokens), KvLayout(kPageBytes)).has_value());
  const auto tier = tier_in(folder_.path() + "/small", 4 << 20);
  auto file = PrefixFileReader::open(path_, "");
  ASSERT_TRUE(file.has_value());
  const auto done = import_prefix(*file, *tier);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(done.error().message, HasSubstr("of 2000 pages could be stored"));
}

// Changes up to three places of a file.
void mutate(std::string& bytes, std::mt19937& random) {
  const auto any = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const size_t n_changes = 1 + any(3);
  for (size_t i = 0; i < n_changes && !bytes.empty(); ++i) {
    const bool is_in_head = any(2) == 0;  // of the file or of a record
    const size_t n_each = kRecordBytes + kTagBytes;
    size_t at = any(bytes.size());
    if (is_in_head) {
      at = any(2) == 0 ? any(kPrefixHeaderBytes) : kPrefixHeaderBytes + any(4) * n_each + any(512);
    }
    at = std::min(at, bytes.size() - 1);
    switch (any(5)) {
      case 0:
        bytes[at] ^= static_cast<char>(1u << any(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(any(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, std::string(1 + any(n_each), static_cast<char>(any(256))));
        break;
      default:  // copies a part to another place
        const size_t n = std::min(1 + any(n_each), bytes.size() - at);
        const std::string part = bytes.substr(any(bytes.size() - n + 1), n);
        bytes.replace(at, n, part);
    }
  }
}

// Each of 1,000 changed files is refused, or gives exactly the pages of the unchanged one.
TEST_F(PrefixFile, no_mutation_of_a_file_gives_other_pages) {
  KvLayout layout(kPageBytes);
  layout.open_page_bytes = 200;
  auto pages = pages_of(4 * kPageTokens + 9);
  for (StoredPage& page : snapshot_of(pages, 4 * kPageTokens + 9, 1)) pages.push_back(page);
  struct Case {
    std::string signs, reads;
  };
  for (const auto& [signs, reads] : {Case{"", ""}, Case{kKey, kKey}, Case{kKey, ""}}) {
    ASSERT_TRUE(export_pages(pages, layout, {}, signs).has_value());
    const std::string good = read_bytes(path_);
    std::mt19937 random(11);
    size_t n_refused = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string bytes = good;
      mutate(bytes, random);
      write_bytes(path_, bytes);
      auto file = PrefixFileReader::open(path_, reads);
      std::vector<std::byte> record(kRecordBytes);
      size_t n_pages = 0;
      bool is_refused = !file || file->header().record_bytes() != kRecordBytes;
      while (!is_refused) {
        const auto page = file->next(record);
        is_refused = !page.has_value();
        if (is_refused || !*page) break;
        const auto same = std::ranges::find(pages, **page, &StoredPage::page);
        ASSERT_NE(same, pages.end()) << i;
        ASSERT_TRUE(std::ranges::equal(std::span(record).subspan(512), same->bytes)) << i;
        ++n_pages;
      }
      if (!is_refused) {
        EXPECT_EQ(n_pages, pages.size()) << i;
        EXPECT_TRUE(bytes == good || signs != reads) << i;  // without the key, tags do not count
      }
      n_refused += is_refused ? 1 : 0;
    }
    EXPECT_GT(n_refused, 900u);
  }
}

}  // namespace
}  // namespace kvik
