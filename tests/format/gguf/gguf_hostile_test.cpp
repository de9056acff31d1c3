// Hostile files: each is rejected with one sentence that names the problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"

namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<float> kOnes(32, 1.0f);

// Opens a heap copy of exactly that size, so that the address sanitizer detects reads past its end.
Result<std::unique_ptr<ModelSource>> open_copy(std::span<const std::byte> bytes,
                                               std::unique_ptr<std::byte[]>& copy) {
  copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return open_gguf_bytes("hostile.gguf", {copy.get(), bytes.size()});
}

void expect_refused(std::span<const std::byte> bytes, ErrorCode code,
                    std::initializer_list<std::string> parts) {
  std::unique_ptr<std::byte[]> copy;
  const auto source = open_copy(bytes, copy);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, code) << source.error().message;
  EXPECT_THAT(source.error().message, HasSubstr("hostile.gguf"));
  for (const std::string& part : parts) EXPECT_THAT(source.error().message, HasSubstr(part));
}

void expect_corrupt(const GgufWriter& file, std::initializer_list<std::string> parts) {
  expect_refused(file.bytes(), ErrorCode::kCorrupt, parts);
}

// Reads all metadata, names and bytes of tensors.
size_t read_everything(ModelSource& source) {
  size_t sum = source.metadata().values().size();
  for (size_t t = 0; t < source.tensors().size(); ++t) {
    const auto bytes = source.read(t);
    if (!bytes) continue;
    for (const std::byte b : *bytes) sum += std::to_integer<size_t>(b);
    source.release(t);
  }
  return sum;
}

GgufWriter small_model() {
  GgufWriter file;
  file.key("general.architecture", "llama");
  file.key("general.alignment", uint32_t{64});
  file.alignment = 64;
  file.key("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", ""});
  file.key("tokenizer.ggml.scores", std::vector<float>{0, -1, -2});
  file.key("flags", std::vector<bool>{true, false});
  file.key("i16", int16_t{-3}).key("f64", 0.5);
  file.tensor("norm", {16}, std::span(kOnes).first(16));
  file.tensor("matrix", {1, 32}, kOnes, ElementType::kQ8_0);
  return file;
}

TEST(GgufHostile, a_file_cut_at_any_byte_is_refused) {
  const auto whole = small_model().bytes();
  std::unique_ptr<std::byte[]> copy;
  ASSERT_TRUE(open_copy(whole, copy));
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto source = open_copy(std::span(whole).first(n), copy);
    ASSERT_FALSE(source) << "cut at byte " << n;
    EXPECT_EQ(source.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(source.error().message, HasSubstr("hostile.gguf"));
  }
}

TEST(GgufHostile, changed_bytes_never_crash) {
  const auto whole = small_model().bytes();
  std::mt19937 random(23);
  std::unique_ptr<std::byte[]> copy;
  size_t n_refused = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = whole;
    for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const auto source = open_copy(bytes, copy);
    if (source) {
      read_everything(**source);
    } else {
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, 1000u);
}

TEST(GgufHostile, changed_lengths_and_counts_never_crash) {
  const auto whole = small_model().bytes();
  std::unique_ptr<std::byte[]> copy;
  for (size_t place = 4; place + 8 <= whole.size(); ++place) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 42,
                                 uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{31}}) {
      auto bytes = whole;
      std::memcpy(bytes.data() + place, &value, sizeof(value));
      const auto source = open_copy(bytes, copy);
      if (source) read_everything(**source);
    }
  }
}

TEST(GgufHostile, another_magic_number_is_shown) {
  auto bytes = small_model().bytes();
  bytes[3] = std::byte{'\n'};
  expect_refused(bytes, ErrorCode::kCorrupt, {"'GGU\\x0a'", "'GGUF'"});
}

TEST(GgufHostile, other_versions_are_named) {
  for (const uint32_t version : {0u, 1u, 4u, 0x01020304u}) {
    GgufWriter file = small_model();
    file.version = version;
    expect_refused(file.bytes(), ErrorCode::kUnsupported, {std::to_string(version), "2 or 3"});
  }
}

TEST(GgufHostile, a_big_endian_file_is_recognised) {
  GgufWriter file = small_model();
  file.version = 0x03000000;
  expect_refused(file.bytes(), ErrorCode::kUnsupported, {"big-endian", "version 3"});
}

TEST(GgufHostile, counts_of_2_to_the_63_are_refused_without_reserving) {
  for (const uint64_t count : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 40}) {
    GgufWriter keys = small_model();
    keys.n_keys_claimed = count;
    expect_corrupt(keys, {std::to_string(count), "keys"});
    GgufWriter tensors = small_model();
    tensors.n_tensors_claimed = count;
    expect_corrupt(tensors, {std::to_string(count), "tensors"});
    for (uint32_t element_type = 0; element_type <= 12; ++element_type) {
      if (element_type == GgufWriter::kArrayType) continue;
      GgufWriter array;
      std::vector<std::byte> payload;
      GgufWriter::put(payload, element_type);
      GgufWriter::put(payload, count);
      array.raw_key("too.long", GgufWriter::kArrayType, payload);
      expect_corrupt(array, {"'too.long'", std::to_string(count)});
    }
  }
}

TEST(GgufHostile, a_string_longer_than_the_file_names_its_key) {
  for (const uint64_t length : {uint64_t{100}, uint64_t{1} << 63, ~uint64_t{0}}) {
    GgufWriter file;
    std::vector<std::byte> payload;
    GgufWriter::put(payload, length);
    file.raw_key("general.name", 8, payload);
    expect_corrupt(file, {"'general.name'", std::to_string(length)});
  }
}

TEST(GgufHostile, an_empty_key_is_refused) {
  GgufWriter file;
  file.key("", uint32_t{1});
  expect_corrupt(file, {"key", "empty name"});
}

TEST(GgufHostile, a_key_given_twice_is_named) {
  GgufWriter file;
  file.key("general.name", "one").key("other", 1.0f).key("general.name", uint32_t{2});
  expect_corrupt(file, {"'general.name'", "twice"});
}

TEST(GgufHostile, a_key_name_in_a_message_is_short_and_printable) {
  GgufWriter file;
  const std::string name = "line\nbreak" + std::string(60000, 'x');
  file.key(name, uint32_t{1}).key(name, uint32_t{1});
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("hostile.gguf", bytes);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, AllOf(HasSubstr("line\\x0abreak"), Not(HasSubstr("\n"))));
  EXPECT_LT(source.error().message.size(), 200u);
}

TEST(GgufHostile, a_key_name_of_megabytes_is_refused) {
  GgufWriter file;
  file.key(std::string(1 << 20, 'k'), uint32_t{1});
  expect_corrupt(file, {"'kkkk", "1048576"});
}

TEST(GgufHostile, an_unknown_value_type_names_its_key) {
  GgufWriter file;
  file.raw_key("strange", 13, std::vector<std::byte>(8));
  expect_corrupt(file, {"'strange'", "13"});
}

TEST(GgufHostile, an_array_of_arrays_is_refused) {
  GgufWriter file;
  std::vector<std::byte> payload;
  GgufWriter::put(payload, GgufWriter::kArrayType);
  GgufWriter::put(payload, uint64_t{1});
  GgufWriter::put(payload, GgufWriter::kArrayType);
  file.raw_key("nested", GgufWriter::kArrayType, payload);
  expect_refused(file.bytes(), ErrorCode::kUnsupported, {"'nested'", "array of arrays"});
}

TEST(GgufHostile, a_bool_of_2_names_its_key) {
  GgufWriter plain;
  plain.raw_key("flag", 7, std::vector<std::byte>{std::byte{2}});
  expect_corrupt(plain, {"'flag'", "2"});
  GgufWriter array;
  std::vector<std::byte> payload;
  GgufWriter::put(payload, uint32_t{7});
  GgufWriter::put(payload, uint64_t{2});
  GgufWriter::put(payload, uint16_t{0x0201});
  array.raw_key("flags", GgufWriter::kArrayType, payload);
  expect_corrupt(array, {"'flags'", "2"});
}

TEST(GgufHostile, an_alignment_that_is_no_reasonable_power_of_two_is_refused) {
  for (const uint32_t alignment : {0u, 1u, 33u, 96u, 1u << 31, ~0u}) {
    GgufWriter file;
    file.key("general.alignment", alignment);
    file.tensor("a", {32}, kOnes);
    expect_corrupt(file, {"'general.alignment'", std::to_string(alignment), "power of two"});
  }
}

TEST(GgufHostile, an_alignment_of_another_type_is_refused) {
  GgufWriter text;
  text.key("general.alignment", "32");
  expect_corrupt(text, {"'general.alignment'", "string"});
  GgufWriter negative;
  negative.key("general.alignment", int32_t{-32});
  expect_corrupt(negative, {"'general.alignment'", "-32"});
}

TEST(GgufHostile, a_dimension_of_0_or_past_2_to_the_42_names_its_tensor) {
  for (const uint64_t extent : {uint64_t{0}, (uint64_t{1} << 42) + 1, ~uint64_t{0}}) {
    for (size_t axis = 0; axis < 2; ++axis) {
      GgufWriter file;
      file.tensor("odd", {1, 32}, kOnes).axes[axis] = extent;
      expect_corrupt(file, {"'odd'", std::to_string(extent)});
    }
  }
}

TEST(GgufHostile, a_product_of_dimensions_that_overflows_names_its_tensor) {
  GgufWriter file;
  file.tensor("huge", {1, 32}, kOnes).axes = {1ULL << 42, 1ULL << 22};
  expect_corrupt(file, {"'huge'", "4194304, 4398046511104"});
  GgufWriter wraps_to_small;  // 2^64 + 32 elements, which wrap around to 32
  wraps_to_small.tensor("huge", {1, 32}, kOnes).axes = {1ULL << 32, 1ULL << 32, 1, 1};
  expect_corrupt(wraps_to_small, {"'huge'"});
}

TEST(GgufHostile, axes_other_than_1_to_4_name_their_tensor) {
  GgufWriter none;
  none.tensor("a", {32}, kOnes).axes.clear();
  expect_corrupt(none, {"'a'", "0 axes"});
  GgufWriter many;
  many.tensor("a", {32}, kOnes).axes = {32, 1, 1, 1, 1};
  expect_corrupt(many, {"'a'", "5 axes"});
}

TEST(GgufHostile, an_unknown_element_type_is_unsupported_and_the_known_are_listed) {
  for (const uint32_t id : {4u, 31u, 99u, ~0u}) {
    GgufWriter file;
    file.tensor("a", {32}, kOnes).type_id = id;
    expect_refused(file.bytes(), ErrorCode::kUnsupported,
                   {"'a'", std::to_string(id), "0 (f32)", "8 (q8_0)", "39 (mxfp4)"});
  }
}

TEST(GgufHostile, rows_interleaved_by_ik_llama_cpp_are_refused_with_the_plain_type) {
  GgufWriter file;
  file.tensor("a", {32}, kOnes).type_id = 344;
  expect_refused(file.bytes(), ErrorCode::kUnsupported,
                 {"'a'", "344 (iq4_ks_r4)", "interleaved", "expected a file with iq4_ks"});
}

TEST(GgufHostile, scales_of_rows_count_among_the_bytes_of_a_tensor) {
  const std::vector<float> ones(160, 1.0f);
  for (const uint64_t n_rows : {8u, 9u}) {  // of 2 + 70 bytes: 576 and 648 of the 640
    GgufWriter file;
    auto& tensor = file.tensor("a", {160}, ones);
    tensor.type_id = traits(ElementType::kIQ2_KS).gguf_id;
    tensor.axes = {256, n_rows};
    file.tensor("b", {32}, kOnes);
    if (n_rows == 9) return expect_corrupt(file, {"'a'", "648 bytes", "'b'"});
    std::unique_ptr<std::byte[]> copy;
    EXPECT_TRUE(open_copy(file.bytes(), copy));
  }
}

TEST(GgufHostile, rows_that_are_no_whole_blocks_name_their_tensor) {
  GgufWriter file;
  file.tensor("a", {1, 32}, kOnes, ElementType::kQ8_0).axes = {33, 1};
  expect_corrupt(file, {"'a'", "33", "32", "q8_0"});
}

TEST(GgufHostile, an_empty_tensor_name_is_refused) {
  GgufWriter file;
  file.tensor("", {32}, kOnes);
  expect_corrupt(file, {"tensor", "empty name"});
}

TEST(GgufHostile, a_tensor_given_twice_is_named) {
  GgufWriter file;
  file.tensor("a", {32}, kOnes);
  file.tensor("b", {32}, kOnes);
  file.tensor("a", {32}, kOnes);
  expect_corrupt(file, {"'a'", "twice"});
}

TEST(GgufHostile, an_unaligned_offset_names_its_tensor) {
  GgufWriter file;
  file.tensor("a", {4}, std::span(kOnes).first(4)).offset = 4;
  file.tensor("b", {32}, kOnes);
  expect_corrupt(file, {"'a'", "offset 4", "32"});
}

TEST(GgufHostile, an_offset_past_the_end_names_its_tensor) {
  for (const uint64_t offset : {uint64_t{32}, uint64_t{1} << 42, ~uint64_t{31}}) {
    GgufWriter file;
    file.tensor("a", {32}, kOnes).offset = offset;
    expect_corrupt(file, {"'a'", std::to_string(offset)});
  }
}

TEST(GgufHostile, overlapping_tensors_are_both_named) {
  GgufWriter file;
  file.tensor("first", {32}, kOnes);
  file.tensor("second", {32}, kOnes).offset = 96;
  expect_corrupt(file, {"'first'", "'second'", "overlaps"});
  GgufWriter same_place;
  same_place.tensor("first", {32}, kOnes);
  same_place.tensor("second", {32}, kOnes).offset = 0;
  expect_corrupt(same_place, {"'first'", "'second'", "overlaps"});
}

TEST(GgufHostile, a_hundred_thousand_tensors_are_checked_in_linear_time) {
  GgufWriter file;
  for (int t = 0; t < 100000; ++t) {
    file.tensor("tensor." + std::to_string(t), {1}, std::span(kOnes).first(1));
  }
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("many", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->tensors().size(), 100000u);
}

}  // namespace
}  // namespace kvik
