#include "base/utf8.h"

#include <gtest/gtest.h>
#include <unicode/utf8.h>

#include <string>

#include "text/bpe/byte_alphabet.h"

namespace kvik {
namespace {

TEST(Utf8, every_character_is_read_whole_and_every_cut_of_it_is_unfinished) {
  for (UChar32 c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    char bytes[4];
    int32_t n = 0;
    U8_APPEND_UNSAFE(bytes, n, c);
    const Utf8Step step = next_utf8({bytes, static_cast<size_t>(n)}, 0);
    ASSERT_EQ(step.kind, Utf8Step::Kind::kValid);
    ASSERT_EQ(step.n_bytes, n);
    ASSERT_EQ(step.code_point, static_cast<char32_t>(c));
    for (int32_t cut = 1; cut < n; ++cut) {
      const Utf8Step part = next_utf8({bytes, static_cast<size_t>(cut)}, 0);
      ASSERT_EQ(part.kind, Utf8Step::Kind::kIncomplete);
      ASSERT_EQ(part.n_bytes, cut);
    }
  }
}

TEST(Utf8, bad_bytes_are_grouped_as_icu_and_browsers_do) {
  for (uint32_t first = 0x80; first < 0x100; ++first) {
    for (uint32_t second = 0; second < 0x100; ++second) {
      for (const uint32_t third : {0x00u, 0x41u, 0x7Fu, 0x80u, 0xBFu, 0xC2u, 0xFFu}) {
        const std::string bytes = {static_cast<char>(first), static_cast<char>(second),
                                   static_cast<char>(third), 'x', 'x'};
        int32_t at = 0;
        UChar32 c = 0;
        U8_NEXT(bytes.data(), at, 5, c);
        const Utf8Step step = next_utf8(bytes, 0);
        ASSERT_EQ(step.kind == Utf8Step::Kind::kValid, c >= 0);
        ASSERT_EQ(step.n_bytes, at) << first << " " << second << " " << third;
      }
    }
  }
}

TEST(ByteAlphabet, every_byte_has_a_letter_that_spells_it) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string letter = byte_to_letter(static_cast<uint8_t>(byte));
    EXPECT_EQ(letters_to_bytes(letter), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_to_letter(' '), "\xC4\xA0");
  EXPECT_EQ(byte_to_letter('\n'), "\xC4\x8A");
}

TEST(ByteAlphabet, other_characters_spell_nothing) {
  EXPECT_EQ(letters_to_bytes("a b"), std::nullopt);
  EXPECT_EQ(letters_to_bytes("\xE6\x88\x91"), std::nullopt);
  EXPECT_EQ(letters_to_bytes("\xC5\x84"), std::nullopt);  // U+0144, one past the alphabet
  EXPECT_EQ(letters_to_bytes("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace kvik
