#include "format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "format/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> floats_of(ModelSource& source, size_t index) {
  const auto bytes = source.read(index);
  EXPECT_TRUE(bytes.has_value());
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

TEST(Safetensors, names_shapes_types_and_bytes_are_those_of_the_file) {
  const auto bytes = SafetensorsWriter()
                         .floats("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6})
                         .tensor("b", "BF16", {2}, std::vector<std::byte>(4, std::byte{7}))
                         .bytes();
  const auto source = open_safetensors_bytes("m", bytes);
  ASSERT_TRUE(source) << source.error().message;
  const auto tensors = (*source)->tensors();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a.weight");
  EXPECT_EQ(tensors[0].type, ElementType::kF32);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(floats_of(**source, 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(tensors[1].type, ElementType::kBF16);
  EXPECT_EQ((*source)->read(1)->size(), 4u);
}

TEST(Safetensors, metadata_and_padding_of_the_header_are_ignored) {
  SafetensorsWriter file;
  file.entry("__metadata__", R"({"format":"pt"})").floats("a", {1}, {1});
  file.header_end = "}      ";
  const auto bytes = file.bytes();
  const auto source = open_safetensors_bytes("m", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->tensors().size(), 1u);
}

TEST(Safetensors, a_tensor_without_axes_has_one_element) {
  const auto bytes = SafetensorsWriter().floats("scalar", {}, {3}).bytes();
  const auto source = open_safetensors_bytes("m", bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT((*source)->tensors()[0].shape, ElementsAre(1));
}

TEST(Safetensors, data_that_begins_at_any_byte_can_be_loaded) {
  for (size_t n_blanks = 0; n_blanks < 8; ++n_blanks) {
    SafetensorsWriter file;
    file.floats("a", {2}, {1, 2}).floats("b", {1}, {3});
    file.header_end = "}" + std::string(n_blanks, ' ');
    const auto bytes = file.bytes();
    const auto source = open_safetensors_bytes("m", bytes);
    ASSERT_TRUE(source);
    for (size_t i = 0; i < 2; ++i) {
      const auto part = (*source)->read(i);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part->data()) % alignof(float), 0u);
      EXPECT_EQ(floats_of(**source, i)[0], i == 0 ? 1 : 3);
      (*source)->release(i);
    }
  }
}

// Writes a file with one tensor of two values and returns its path.
std::string written(const TemporaryFolder& folder, const std::string& name,
                    const std::vector<float>& values) {
  const std::string path = folder.path() + "/" + name;
  const auto bytes = SafetensorsWriter().floats("a", {2}, values).bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST(Safetensors, files_of_a_model_share_the_memory_of_released_tensors) {
  const TemporaryFolder folder;
  const SpareRegion spare = make_spare_region();
  const std::byte* where = nullptr;
  for (const char* name : {"1.safetensors", "2.safetensors"}) {
    const auto source = open_safetensors(written(folder, name, {1, 2}), spare);
    ASSERT_TRUE(source);
    const auto bytes = (*source)->read(0);
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(spare->bytes().empty());
    EXPECT_TRUE(where == nullptr || where == bytes->data());
    where = bytes->data();
    (*source)->release(0);
    EXPECT_EQ(spare->bytes().data(), where);
  }
}

TEST(Safetensors, a_file_is_opened_by_its_path) {
  const TemporaryFolder folder;
  const std::string path = written(folder, "model.safetensors", {1, 2});
  const auto source = open_safetensors(path);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->label(), path);
  EXPECT_THAT(floats_of(**source, 0), ElementsAre(1, 2));
  (*source)->release(0);
  EXPECT_THAT(floats_of(**source, 0), ElementsAre(1, 2));
  const auto none = open_safetensors(path + "x");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvik
