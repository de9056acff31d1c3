#include "format/gguf/gguf_output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

std::vector<std::byte> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Writes the contents of the source unchanged.
Result<void> copy(ModelSource& source, const std::string& path, size_t piece_bytes) {
  const std::vector<TensorInfo> tensors(source.tensors().begin(), source.tensors().end());
  TRY_ASSIGN(auto output, GgufOutput::create(path, source.metadata(), tensors));
  for (size_t t = 0; t < tensors.size(); ++t) {
    TRY_ASSIGN(auto bytes, source.read(t));
    while (!bytes.empty()) {
      const size_t n = std::min(piece_bytes, bytes.size());
      TRY(output.write(bytes.first(n)));
      bytes = bytes.subspan(n);
    }
  }
  return output.commit();
}

// Returns a file with every value type, as single values and in arrays, including empty arrays;
// keys are sorted.
GgufWriter every_type() {
  GgufWriter file;
  file.key("a.f32", 0.1f).key("a.f64", 0.1).key("a.flag", true).key("a.text", "a \"word\"");
  file.key("b.i16", int16_t{-2}).key("b.i32", int32_t{-3}).key("b.i64", int64_t{-4});
  file.key("b.i8", int8_t{-1}).key("b.u16", uint16_t{65535}).key("b.u32", uint32_t{7});
  file.key("b.u64", uint64_t{8}).key("b.u8", uint8_t{255});
  file.key("c.empty", std::vector<int8_t>{}).key("c.empty_words", std::vector<std::string>{});
  file.key("c.f32", std::vector<float>{1.5f, -2.25f}).key("c.f64", std::vector<double>{1e300});
  file.key("c.flags", std::vector<bool>{true, false}).key("c.i16", std::vector<int16_t>{-300});
  file.key("c.i32", std::vector<int32_t>{1, -1}).key("c.i64", std::vector<int64_t>{1, -1});
  file.key("c.i8", std::vector<int8_t>{-128, 127}).key("c.u16", std::vector<uint16_t>{1});
  file.key("c.u32", std::vector<uint32_t>{1, 2}).key("c.u64", std::vector<uint64_t>{1});
  file.key("c.u8", std::vector<uint8_t>{0, 255});
  file.key("c.words", std::vector<std::string>{"", "two", std::string("\0x", 2)});
  return file;
}

TEST(GgufOutput, a_file_that_is_read_and_written_again_is_the_same_bytes) {
  GgufWriter file = every_type();
  const std::vector<float> values(96, 0.25f);
  file.tensor("first", {3, 32}, values, ElementType::kQ4_0);
  file.tensor("second", {1, 3}, std::span(values).first(3));
  file.tensor("third", {2, 2, 8}, std::span(values).first(32), ElementType::kBF16);
  auto bytes = file.bytes();
  const TemporaryFolder folder;
  auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  bytes.resize((bytes.size() + 31) / 32 * 32);  // GgufOutput pads the last tensor as well
  for (const size_t piece : {1u, 7u, 1000u}) {
    ASSERT_TRUE(copy(**source, folder.path() + "/copy.gguf", piece).has_value());
    EXPECT_EQ(content_of(folder.path() + "/copy.gguf"), bytes);
  }
}

TEST(GgufOutput, the_files_own_alignment_holds) {
  GgufWriter file;
  file.alignment = 256;
  file.key("general.alignment", uint32_t{256});
  const std::vector<float> values(32, 1.0f);
  file.tensor("a", {5}, std::span(values).first(5)).data.resize(20);
  file.tensor("b", {32}, values);
  auto bytes = file.bytes();
  auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const TemporaryFolder folder;
  ASSERT_TRUE(copy(**source, folder.path() + "/copy.gguf", 16).has_value());
  bytes.resize((bytes.size() + 255) / 256 * 256);
  EXPECT_EQ(content_of(folder.path() + "/copy.gguf"), bytes);
}

TEST(GgufOutput, numbers_of_unknown_width_take_32_bits_where_they_fit) {
  Metadata metadata;
  metadata.insert("a", uint64_t{5});
  metadata.insert("b", uint64_t{1} << 40);
  metadata.insert("c", std::vector<int64_t>{-1, 1});
  metadata.insert("d", 0.5);
  GgufWriter expected;
  expected.key("a", uint32_t{5}).key("b", uint64_t{1} << 40);
  expected.key("c", std::vector<int32_t>{-1, 1}).key("d", 0.5f);
  auto bytes = expected.bytes();
  bytes.resize((bytes.size() + 31) / 32 * 32);
  EXPECT_EQ(gguf_header(metadata, {}), bytes);
}

TEST(GgufOutput, what_replaces_a_key_has_a_width_of_its_own) {
  GgufWriter file;
  file.key("a", uint64_t{5});
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source.has_value());
  Metadata metadata = (*source)->metadata();
  EXPECT_EQ(metadata.stored_bits("a"), 64u);
  metadata.replace("a", uint64_t{6});
  EXPECT_EQ(metadata.stored_bits("a"), 0u);
  metadata.erase("a");
  EXPECT_FALSE(metadata.contains("a"));
}

TEST(GgufOutput, given_up_half_way_leaves_no_file) {
  GgufWriter file;
  const std::vector<float> values(64, 1.0f);
  file.tensor("a", {2, 32}, values);
  const auto bytes = file.bytes();
  auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source.has_value());
  const TemporaryFolder folder;
  {
    const std::vector<TensorInfo> tensors((*source)->tensors().begin(), (*source)->tensors().end());
    auto output = GgufOutput::create(folder.path() + "/half.gguf", (*source)->metadata(), tensors);
    ASSERT_TRUE(output.has_value());
    ASSERT_TRUE(output->write(std::as_bytes(std::span(values)).first(100)).has_value());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kvik
