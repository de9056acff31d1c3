#include "format/gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "format/gguf_writer.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;

std::vector<float> ramp(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) * 0.25f - 3.0f;
  return values;
}

std::vector<float> values_of(ModelSource& source, std::string_view name) {
  const auto index = source.find(name);
  if (!index) return {};
  const auto bytes = source.read(*index);
  if (!bytes) return {};
  const TensorInfo& info = source.tensors()[*index];
  std::vector<float> values(info.n_elements());
  dequantize_row(info.type, bytes->data(), values);
  return values;
}

template <class T>
T value_of(const ModelSource& source, std::string_view key) {
  const Metadata::Value* value = source.metadata().find(key);
  if (!value || !std::holds_alternative<T>(*value)) {
    ADD_FAILURE() << key << " is absent or of another type";
    return {};
  }
  return std::get<T>(*value);
}

class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> bytes)
      : path_(testing::TempDir() + "kvik_gguf_test_" + std::to_string(::getpid()) + ".gguf") {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Gguf, every_plain_value_type_is_widened_and_keeps_its_value) {
  GgufWriter file;
  file.key("u8", uint8_t{255}).key("i8", int8_t{-128});
  file.key("u16", uint16_t{65535}).key("i16", int16_t{-32768});
  file.key("u32", uint32_t{4294967295}).key("i32", std::numeric_limits<int32_t>::min());
  file.key("u64", std::numeric_limits<uint64_t>::max());
  file.key("i64", std::numeric_limits<int64_t>::min());
  file.key("f32", 1.5f).key("f64", -0.1).key("yes", true).key("no", false);
  file.key("text", std::string("zwölf\0Boxkämpfer", 17)).key("empty", "");
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(value_of<uint64_t>(**source, "u8"), 255u);
  EXPECT_EQ(value_of<int64_t>(**source, "i8"), -128);
  EXPECT_EQ(value_of<uint64_t>(**source, "u16"), 65535u);
  EXPECT_EQ(value_of<int64_t>(**source, "i16"), -32768);
  EXPECT_EQ(value_of<uint64_t>(**source, "u32"), 4294967295u);
  EXPECT_EQ(value_of<int64_t>(**source, "i32"), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(value_of<uint64_t>(**source, "u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(value_of<int64_t>(**source, "i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(value_of<double>(**source, "f32"), 1.5);
  EXPECT_EQ(value_of<double>(**source, "f64"), -0.1);
  EXPECT_TRUE(value_of<bool>(**source, "yes"));
  EXPECT_FALSE(value_of<bool>(**source, "no"));
  EXPECT_EQ(value_of<std::string>(**source, "text"), std::string("zwölf\0Boxkämpfer", 17));
  EXPECT_EQ(value_of<std::string>(**source, "empty"), "");
}

TEST(Gguf, every_array_type_keeps_its_values_also_with_none) {
  GgufWriter file;
  file.key("u8", std::vector<uint8_t>{1, 255}).key("i8", std::vector<int8_t>{-1, 2});
  file.key("u16", std::vector<uint16_t>{65535}).key("i16", std::vector<int16_t>{-32768});
  file.key("u32", std::vector<uint32_t>{7, 8, 9}).key("i32", std::vector<int32_t>{-7, 8, -9});
  file.key("u64", std::vector<uint64_t>{1ULL << 63}).key("i64", std::vector<int64_t>{-1});
  file.key("f32", std::vector<float>{0.5f, -2}).key("f64", std::vector<double>{0.1});
  file.key("bool", std::vector<bool>{true, false, true});
  file.key("text", std::vector<std::string>{"a", "", "ccc"});
  file.key("none", std::vector<std::string>{});
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source) << source.error().message;
  using Unsigned = std::vector<uint64_t>;
  using Signed = std::vector<int64_t>;
  using Floats = std::vector<double>;
  using Texts = std::vector<std::string>;
  EXPECT_THAT(value_of<Unsigned>(**source, "u8"), ElementsAre(1, 255));
  EXPECT_THAT(value_of<Signed>(**source, "i8"), ElementsAre(-1, 2));
  EXPECT_THAT(value_of<Unsigned>(**source, "u16"), ElementsAre(65535));
  EXPECT_THAT(value_of<Signed>(**source, "i16"), ElementsAre(-32768));
  EXPECT_THAT(value_of<Unsigned>(**source, "u32"), ElementsAre(7, 8, 9));
  EXPECT_THAT(value_of<Signed>(**source, "i32"), ElementsAre(-7, 8, -9));
  EXPECT_THAT(value_of<Unsigned>(**source, "u64"), ElementsAre(1ULL << 63));
  EXPECT_THAT(value_of<Signed>(**source, "i64"), ElementsAre(-1));
  EXPECT_THAT(value_of<Floats>(**source, "f32"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(value_of<Floats>(**source, "f64"), ElementsAre(0.1));
  EXPECT_THAT(value_of<std::vector<bool>>(**source, "bool"), ElementsAre(true, false, true));
  EXPECT_THAT(value_of<Texts>(**source, "text"), ElementsAre("a", "", "ccc"));
  EXPECT_TRUE(value_of<Texts>(**source, "none").empty());
}

TEST(Gguf, tensors_come_in_file_order_with_the_last_axis_fastest) {
  GgufWriter file;
  file.tensor("a", {2, 3}, ramp(6));
  file.tensor("b", {2, 1, 3, 32}, ramp(192), ElementType::kQ8_0);
  file.tensor("c", {5}, ramp(5), ElementType::kF16);
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source) << source.error().message;
  const auto tensors = (*source)->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[0].n_bytes, 24u);
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 1, 3, 32));
  EXPECT_EQ(tensors[1].type, ElementType::kQ8_0);
  EXPECT_EQ(tensors[1].n_bytes, 6u * 34);
  EXPECT_EQ(values_of(**source, "a"), ramp(6));
  EXPECT_EQ(values_of(**source, "c"), ramp(5));
  EXPECT_EQ((*source)->find("d"), std::nullopt);
  EXPECT_EQ((*source)->label(), "test");
}

TEST(Gguf, versions_2_and_3_read_alike) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter file;
    file.version = version;
    file.key("general.architecture", "llama");
    file.tensor("a", {4}, ramp(4));
    const auto bytes = file.bytes();
    const auto source = open_gguf_bytes("test", bytes);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(value_of<std::string>(**source, "general.architecture"), "llama");
    EXPECT_EQ(values_of(**source, "a"), ramp(4));
  }
}

TEST(Gguf, the_stated_alignment_decides_where_the_data_lies) {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    GgufWriter file;
    file.alignment = alignment;
    file.key("general.alignment", alignment);
    file.tensor("a", {3}, ramp(3));
    file.tensor("b", {7}, ramp(7));
    const auto bytes = file.bytes();
    const auto source = open_gguf_bytes("test", bytes);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(values_of(**source, "a"), ramp(3));
    EXPECT_EQ(values_of(**source, "b"), ramp(7));
  }
}

TEST(Gguf, a_file_of_keys_alone_has_no_tensors) {
  GgufWriter file;
  file.key("tokenizer.ggml.model", "llama");
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("vocabulary", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE((*source)->tensors().empty());
}

TEST(Gguf, tensors_may_lie_in_any_order_and_leave_gaps) {
  GgufWriter file;
  file.tensor("a", {8}, ramp(8)).offset = 64;
  file.tensor("b", {8}, ramp(8)).offset = 0;
  const auto written = file.bytes();  // the data of both begin at 0 and 32; 64 is past them
  auto bytes = written;
  bytes.resize(bytes.size() + 32);
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(values_of(**source, "b"), ramp(8));
}

TEST(Gguf, a_file_reads_the_same_after_a_release) {
  GgufWriter file;
  const auto values = ramp(10000);
  file.tensor("a", {10, 1000}, values);
  file.tensor("b", {10000}, values, ElementType::kF16);
  const TemporaryFile on_disk(file.bytes());
  const auto source = open_gguf(on_disk.path());
  ASSERT_TRUE(source) << source.error().message;
  const auto first = values_of(**source, "b");
  EXPECT_EQ(values_of(**source, "a"), values);
  (*source)->release(0);
  (*source)->release(1);
  EXPECT_EQ(values_of(**source, "a"), values);
  EXPECT_EQ(values_of(**source, "b"), first);
  EXPECT_EQ((*source)->label(), on_disk.path());
}

TEST(Gguf, ranges_of_a_file_are_what_the_whole_has_there) {
  GgufWriter file;
  const auto values = ramp(10000);
  file.tensor("a", {10, 1000}, values);
  file.tensor("b", {10, 1000}, values);
  const TemporaryFile on_disk(file.bytes());
  const auto source = open_gguf(on_disk.path());
  ASSERT_TRUE(source) << source.error().message;
  constexpr uint64_t kRowBytes = 1000 * sizeof(float);
  // Forward, backward, longer, within the part that is already read, and everything.
  for (const auto& [first, n] :
       {std::pair<size_t, size_t>{0, 2}, {2, 2}, {3, 1}, {1, 1}, {0, 4}, {9, 1}, {0, 10}, {4, 3}}) {
    for (const size_t index : {0, 1}) {
      const auto range = (*source)->read_range(index, first * kRowBytes, n * kRowBytes);
      ASSERT_TRUE(range && range->size() == n * kRowBytes);
      EXPECT_EQ(0, std::memcmp(range->data(), values.data() + first * 1000, range->size()));
    }
  }
  EXPECT_EQ(values_of(**source, "a"), values);
}

TEST(Gguf, reading_a_truncated_file_is_an_error) {
  GgufWriter file;
  file.tensor("a", {10000}, ramp(10000));
  file.tensor("b", {10000}, ramp(10000));
  const auto bytes = file.bytes();
  const TemporaryFile on_disk(bytes);
  const auto source = open_gguf(on_disk.path());
  ASSERT_TRUE(source) << source.error().message;
  std::filesystem::resize_file(on_disk.path(), bytes.size() - 30000);
  EXPECT_EQ(values_of(**source, "a"), ramp(10000));
  const auto gone = (*source)->read(1);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(gone.error().message.find("was truncated while it was read"), std::string::npos);
}

// A sparse file costs its sender nothing, whatever its length.
TEST(Gguf, a_sparse_file_of_gigabytes_does_not_make_us_allocate_them) {
  GgufWriter file;
  std::vector<std::byte> payload;
  GgufWriter::put(payload, uint32_t{0});
  GgufWriter::put(payload, uint64_t{60} << 30);
  file.raw_key("holes", GgufWriter::kArrayType, payload);
  const TemporaryFile on_disk(file.bytes());
  std::filesystem::resize_file(on_disk.path(), uint64_t{64} << 30);
  const auto source = open_gguf(on_disk.path());
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, ::testing::HasSubstr("'holes'"));
}

TEST(Gguf, a_path_that_is_no_file_is_named) {
  const auto missing = open_gguf("/no/such/model.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("/no/such/model.gguf"));
  const auto folder = open_gguf(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

TEST(Gguf, the_last_norm_of_an_mtp_layer_may_have_another_name) {
  GgufWriter file;
  const std::vector<float> ones(64, 1.0f);
  file.tensor("blk.2.layer_output_norm.weight", {64}, ones);
  file.tensor("blk.3.nextn.eh_proj.weight", {64}, ones);
  file.tensor("blk.3.layer_output_norm.weight", {64}, ones);
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("test", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE((*source)->find("blk.2.layer_output_norm.weight"));
  EXPECT_TRUE((*source)->find("blk.3.nextn.shared_head_norm.weight"));
  EXPECT_FALSE((*source)->find("blk.3.layer_output_norm.weight"));
}

}  // namespace
}  // namespace kvik
