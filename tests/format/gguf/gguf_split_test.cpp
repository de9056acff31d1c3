#include "format/gguf/gguf_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

using testing::HasSubstr;

const std::vector<float> kOnes(32, 1.0f);

void write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

GgufWriter piece(uint16_t no, uint16_t count, int32_t n_tensors) {
  GgufWriter file;
  file.key("split.no", no).key("split.count", count).key("split.tensors.count", n_tensors);
  return file;
}

// A model split into three files with one tensor each.
class GgufSplitTest : public testing::Test {
 protected:
  GgufSplitTest() {
    for (uint16_t no = 0; no < 3; ++no) {
      GgufWriter file = piece(no, 3, 3);
      if (no == 0) file.key("general.architecture", "llama");
      file.tensor("t" + std::to_string(no), {32}, std::vector<float>(32, static_cast<float>(no)));
      write(path(no), file.bytes());
    }
  }

  std::string path(int no) const {
    return folder_.path() + "/m-0000" + std::to_string(no + 1) + "-of-00003.gguf";
  }
  Error error() const {
    const auto source = open_gguf(path(0));
    EXPECT_FALSE(source.has_value());
    return source ? Error{ErrorCode::kIo, "", ""} : source.error();
  }

  TemporaryFolder folder_;
};

TEST_F(GgufSplitTest, all_pieces_open_as_one_whichever_is_named) {
  for (int no = 0; no < 3; ++no) {
    const auto source = open_gguf(path(no));
    ASSERT_TRUE(source.has_value()) << source.error().message;
    ASSERT_EQ((*source)->tensors().size(), 3u);
    EXPECT_TRUE((*source)->metadata().contains("general.architecture"));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ((*source)->tensors()[i].name, "t" + std::to_string(i));
      const auto bytes = (*source)->read(i);
      ASSERT_TRUE(bytes.has_value());
      float first = -1;
      std::memcpy(&first, bytes->data(), sizeof(first));
      EXPECT_EQ(first, static_cast<float>(i));
      (*source)->release(i);
    }
  }
}

TEST_F(GgufSplitTest, a_missing_piece_is_named) {
  std::filesystem::remove(path(1));
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("piece 2 of 3"));
  EXPECT_THAT(error().message, HasSubstr("m-00002-of-00003.gguf"));
}

TEST_F(GgufSplitTest, a_piece_of_another_number_or_model_is_named) {
  write(path(2), piece(1, 3, 3).bytes());
  EXPECT_THAT(error().message, HasSubstr("is not piece 3 of 3"));
  write(path(2), piece(2, 4, 3).bytes());
  EXPECT_THAT(error().message, HasSubstr("is not piece 3 of 3"));
  write(path(2), GgufWriter().bytes());
  EXPECT_THAT(error().message, HasSubstr("is not piece 3 of 3"));
}

TEST_F(GgufSplitTest, a_tensor_too_few_or_twice_is_refused) {
  write(path(2), piece(2, 3, 3).bytes());
  EXPECT_THAT(error().message, HasSubstr("have 2 tensors, but 'split.tensors.count' is 3"));
  GgufWriter twice = piece(2, 3, 3);
  twice.tensor("t0", {32}, kOnes);
  write(path(2), twice.bytes());
  EXPECT_THAT(error().message, HasSubstr("'t0' is in an earlier piece"));
}

TEST_F(GgufSplitTest, a_piece_under_another_name_says_what_was_expected) {
  std::filesystem::rename(path(0), folder_.path() + "/model.gguf");
  const auto source = open_gguf(folder_.path() + "/model.gguf");
  ASSERT_FALSE(source.has_value());
  EXPECT_THAT(source.error().message, HasSubstr("expected a name that ends in '-00001-of-00003"));
}

TEST_F(GgufSplitTest, numbers_that_cannot_be_are_refused) {
  GgufWriter file;
  file.key("split.count", uint64_t{1} << 63).key("split.no", uint16_t{0});
  file.key("split.tensors.count", int32_t{1});
  write(path(0), file.bytes());
  EXPECT_EQ(error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(error().message, HasSubstr("9223372036854775808"));
  write(path(0), piece(3, 3, 3).bytes());
  EXPECT_THAT(error().message, HasSubstr("are 3 and 3"));
  write(path(0), GgufWriter().key("split.count", uint16_t{2}).bytes());
  EXPECT_THAT(error().message, HasSubstr("'split.no' is missing"));
  write(path(0), piece(0, 3, -1).bytes());
  EXPECT_THAT(error().message, HasSubstr("split.tensors.count"));
}

TEST_F(GgufSplitTest, a_piece_cut_at_any_byte_of_its_header_is_one_error) {
  GgufWriter file = piece(2, 3, 3);
  file.tensor("t2", {32}, kOnes);
  const auto whole = file.bytes();
  for (size_t n = 0; n < whole.size(); n += 3) {
    write(path(2), {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)});
    EXPECT_FALSE(error().message.empty());
  }
}

}  // namespace
}  // namespace kvik
