// Hostile files: each is rejected with one sentence that names the problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "format/safetensors.h"
#include "format/safetensors_writer.h"

namespace kvik {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Opens a heap copy of exactly that size, so that the address sanitizer detects reads past its end.
Result<std::unique_ptr<ModelSource>> open_copy(std::span<const std::byte> bytes,
                                               std::unique_ptr<std::byte[]>& copy) {
  copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return open_safetensors_bytes("hostile.safetensors", {copy.get(), bytes.size()});
}

void expect_refused(const std::vector<std::byte>& bytes, ErrorCode code,
                    std::initializer_list<std::string> parts) {
  std::unique_ptr<std::byte[]> copy;
  const auto source = open_copy(bytes, copy);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, code) << source.error().message;
  EXPECT_THAT(source.error().message, HasSubstr("hostile.safetensors"));
  EXPECT_THAT(source.error().message, Not(HasSubstr("\n")));
  for (const std::string& part : parts) EXPECT_THAT(source.error().message, HasSubstr(part));
}

void expect_corrupt(const SafetensorsWriter& file, std::initializer_list<std::string> parts) {
  expect_refused(file.bytes(), ErrorCode::kCorrupt, parts);
}

SafetensorsWriter small_model() {
  SafetensorsWriter file;
  file.entry("__metadata__", R"({"format":"pt"})");
  file.floats("norm", {4}, {1, 2, 3, 4}).floats("matrix", {2, 3}, {1, 2, 3, 4, 5, 6});
  return file;
}

size_t read_everything(ModelSource& source) {
  size_t sum = 0;
  for (size_t t = 0; t < source.tensors().size(); ++t) {
    const auto bytes = source.read(t);
    if (!bytes) continue;
    for (const std::byte b : *bytes) sum += std::to_integer<size_t>(b);
    source.release(t);
  }
  return sum;
}

TEST(SafetensorsHostile, a_file_cut_at_any_byte_is_refused) {
  const auto whole = small_model().bytes();
  std::unique_ptr<std::byte[]> copy;
  ASSERT_TRUE(open_copy(whole, copy));
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto source = open_copy(std::span(whole).first(n), copy);
    ASSERT_FALSE(source) << "cut at byte " << n;
    EXPECT_EQ(source.error().code, ErrorCode::kCorrupt);
  }
}

TEST(SafetensorsHostile, changed_bytes_never_crash) {
  const auto whole = small_model().bytes();
  std::mt19937 random(24);
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

TEST(SafetensorsHostile, a_header_longer_than_the_file_is_refused_without_reserving) {
  for (const uint64_t length :
       {uint64_t{1000}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    SafetensorsWriter file = small_model();
    file.length_claimed = length;
    expect_corrupt(file, {std::to_string(length), "header's length"});
  }
}

TEST(SafetensorsHostile, a_header_that_is_no_json_object_is_refused) {
  SafetensorsWriter open_ended = small_model();
  open_ended.header_end = "";
  expect_corrupt(open_ended, {"JSON"});
  for (const char* text : {"[]", "7", "", "{\"a\":7}", "nonsense", "\xff\xfe"}) {
    const std::string header = text;
    std::vector<std::byte> bytes(8 + header.size());
    bytes[0] = static_cast<std::byte>(header.size());
    std::memcpy(bytes.data() + 8, header.data(), header.size());
    expect_refused(bytes, ErrorCode::kCorrupt, {"header"});
  }
}

TEST(SafetensorsHostile, a_header_nested_deeply_is_refused) {
  SafetensorsWriter file;
  file.entry("deep", std::string(100000, '['));
  expect_corrupt(file, {"JSON"});
}

TEST(SafetensorsHostile, shape_times_type_must_be_the_bytes) {
  const std::vector<std::byte> data(16);
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{5},
                                             {3},
                                             {4, 4},
                                             {1ULL << 40, 1ULL << 40},
                                             {1ULL << 32, 1ULL << 32, 4}}) {
    expect_corrupt(SafetensorsWriter().tensor("odd", "F32", shape, data), {"'odd'", "16 bytes"});
  }
  expect_corrupt(SafetensorsWriter().tensor("odd", "F16", {4}, data), {"'odd'", "expected 8"});
}

TEST(SafetensorsHostile, axes_that_cannot_be_name_their_tensor) {
  const std::vector<std::byte> data(16);
  for (const uint64_t extent : {uint64_t{0}, (uint64_t{1} << 42) + 1, ~uint64_t{0}}) {
    expect_corrupt(SafetensorsWriter().tensor("odd", "F32", {4, extent}, data),
                   {"'odd'", std::to_string(extent)});
  }
  expect_corrupt(SafetensorsWriter().tensor("odd", "F32", std::vector<uint64_t>(9, 1), data),
                 {"'odd'", "9 axes"});
  for (const char* shape : {"[-1]", "[1.5]", "\"4\"", "null", "{}", "[[4]]"}) {
    expect_corrupt(
        SafetensorsWriter().entry(
            "odd", fmt::format(R"({{"dtype":"F32","shape":{},"data_offsets":[0,0]}})", shape)),
        {"odd", "shape"});
  }
}

TEST(SafetensorsHostile, offsets_that_overlap_or_leave_holes_are_refused) {
  const auto at = [](uint64_t begin, uint64_t end) {
    return fmt::format(R"({{"dtype":"F32","shape":[4],"data_offsets":[{},{}]}})", begin, end);
  };
  expect_corrupt(SafetensorsWriter().entry("a", at(0, 16)).entry("b", at(8, 24)).more_data(24),
                 {"'b'", "byte 8", "16"});
  expect_corrupt(SafetensorsWriter().entry("a", at(0, 16)).entry("b", at(0, 16)).more_data(16),
                 {"begins at byte 0"});
  expect_corrupt(SafetensorsWriter().entry("a", at(0, 16)).entry("b", at(20, 36)).more_data(36),
                 {"'b'", "byte 20"});
  expect_corrupt(SafetensorsWriter().entry("a", at(4, 20)).more_data(20), {"'a'", "byte 4"});
  expect_corrupt(small_model().more_data(1), {"41"});
}

TEST(SafetensorsHostile, offsets_past_the_end_or_backwards_name_their_tensor) {
  for (const char* offsets : {"[16,0]", "[0]", "[0,16,32]", "[]", "7", "[-4,12]", "[0,1e3]", "null",
                              "[0,18446744073709551616]"}) {
    expect_corrupt(
        SafetensorsWriter()
            .entry("odd",
                   fmt::format(R"({{"dtype":"F32","shape":[4],"data_offsets":{}}})", offsets))
            .more_data(16),
        {"odd", "data_offsets"});
  }
  expect_corrupt(SafetensorsWriter()
                     .entry("odd", R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})")
                     .more_data(12),
                 {"'odd'", "byte 16", "only 12"});
  expect_corrupt(
      SafetensorsWriter().entry(
          "odd", R"({"dtype":"I8","shape":[4398046511104],"data_offsets":[0,4398046511104]})"),
      {"'odd'", "only 0"});
}

TEST(SafetensorsHostile, a_name_given_twice_leaves_a_hole) {
  expect_corrupt(SafetensorsWriter().floats("a", {1}, {1}).floats("a", {1}, {2}), {"'a'"});
}

TEST(SafetensorsHostile, an_element_type_that_is_not_known_is_named_with_those_that_are) {
  for (const char* dtype : {"F8_E5M2", "F4", "f32", "", "bool"}) {
    expect_refused(SafetensorsWriter().tensor("a", dtype, {4}, std::vector<std::byte>(4)).bytes(),
                   ErrorCode::kUnsupported, {"'a'", fmt::format("'{}'", dtype), "BF16"});
  }
  expect_corrupt(SafetensorsWriter().entry("a", R"({"shape":[4],"data_offsets":[0,0]})"),
                 {"dtype"});
}

TEST(SafetensorsHostile, an_empty_name_is_refused) {
  expect_corrupt(SafetensorsWriter().floats("", {1}, {1}), {"empty name"});
}

TEST(SafetensorsHostile, a_name_in_a_message_is_short_and_printable) {
  SafetensorsWriter file;
  file.floats("line\\nbreak" + std::string(60000, 'x'), {1}, {1}).more_data(4);
  file.floats("b", {1}, {1});
  const auto bytes = file.bytes();
  const auto source = open_safetensors_bytes("m", bytes);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, Not(HasSubstr("\n")));
  EXPECT_LT(source.error().message.size(), 300u);
}

TEST(SafetensorsHostile, a_hundred_thousand_tensors_are_checked_in_linear_time) {
  SafetensorsWriter file;
  for (int t = 0; t < 100000; ++t) file.floats("tensor." + std::to_string(t), {1}, {1});
  const auto bytes = file.bytes();
  const auto source = open_safetensors_bytes("many", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->tensors().size(), 100000u);
}

}  // namespace
}  // namespace kvik
