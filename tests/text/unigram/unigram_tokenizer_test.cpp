#include <gtest/gtest.h>

#include "text/unigram/charsmap.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr TokenizeOptions kPlain = {.add_bos = false};
const std::string kMark = "\xE2\x96\x81";

Metadata toy_unigram(const std::vector<ToyPiece>& pieces) {
  Metadata metadata = with(toy_spm(pieces), "tokenizer.ggml.model", std::string("t5"));
  metadata = with(metadata, "tokenizer.ggml.add_space_prefix", true);
  return with(metadata, "tokenizer.ggml.remove_extra_whitespaces", true);
}

std::vector<std::string> names(const Tokenizer& tokenizer, std::string_view text,
                               const TokenizeOptions& options = kPlain) {
  std::vector<std::string> all;
  for (const TokenId id : tokenizer.tokenize(text, options)) {
    all.push_back(tokenizer.piece(id, Tokenizer::Special::kShow));
  }
  return all;
}

using Names = std::vector<std::string>;

const std::vector<ToyPiece> kPieces = {{kMark, -2},        {"a", -3},  {"b", -3},
                                       {kMark + "ab", -9}, {"ab", -4}, {kMark + "a", -6}};

TEST(UnigramTokenizer, the_cut_with_the_highest_sum_of_scores_wins) {
  const auto tokenizer = load(toy_unigram(kPieces));
  EXPECT_EQ(names(*tokenizer, "ab"), (Names{" ", "ab"}));  // -6; " ab" has -9
  EXPECT_EQ(names(*tokenizer, "a"), (Names{" ", "a"}));    // -5; " a" has -6
  EXPECT_EQ(names(*tokenizer, "aba"), (Names{" ", "ab", "a"}));
}

TEST(UnigramTokenizer, runs_of_blanks_are_one_and_those_at_the_ends_are_none) {
  const auto tokenizer = load(toy_unigram(kPieces));
  EXPECT_EQ(names(*tokenizer, "  a   b "), names(*tokenizer, "a b"));
  const auto keeping = load(with(toy_unigram(kPieces), "tokenizer.ggml.remove_extra_whitespaces",
                                 std::optional<Metadata::Value>()));
  EXPECT_EQ(names(*keeping, "a  b"), (Names{" ", "a", " ", " ", "b"}));
}

TEST(UnigramTokenizer, unknown_characters_side_by_side_are_one_unknown_token) {
  const auto tokenizer = load(toy_unigram(kPieces));
  EXPECT_EQ(names(*tokenizer, "a\xE6\x88\x91\xFFxb"), (Names{" ", "a", "<unk>", "b"}));
}

TEST(UnigramTokenizer, an_end_token_follows_unless_the_file_says_otherwise) {
  const auto tokenizer = load(toy_unigram(kPieces));
  EXPECT_EQ(names(*tokenizer, "a", {}), (Names{" ", "a", "</s>"}));
}

// Returns a charsmap that replaces `from` by `to`: a chain of nodes, each 256 units after the
// previous one.
std::vector<int64_t> charsmap(const std::string& from, const std::string& to) {
  std::vector<uint32_t> units(256 * (from.size() + 2));
  const auto base = [](size_t depth) { return static_cast<uint32_t>(256 * (depth + 1)); };
  units[0] = base(0) << 10;
  for (size_t depth = 0; depth < from.size(); ++depth) {
    const auto label = static_cast<uint8_t>(from[depth]);
    const uint32_t node = base(depth) ^ label;
    const uint32_t is_last = depth + 1 == from.size() ? 1u << 8 : 0;
    units[node] = (node ^ base(depth + 1)) << 10 | is_last | label;
  }
  units[base(from.size())] = 1u << 31;  // the replacement is at offset 0
  std::vector<int64_t> bytes;
  const auto add = [&](uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes.push_back(value >> (8 * i) & 0xFF);
  };
  add(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) add(unit);
  for (const char c : to) bytes.push_back(c);
  bytes.push_back(0);
  return bytes;
}

TEST(UnigramTokenizer, what_the_charsmap_names_is_replaced) {
  const auto tokenizer = load(with(toy_unigram(kPieces), "tokenizer.ggml.precompiled_charsmap",
                                   charsmap("\xEF\xBD\x81", "ab")));
  EXPECT_EQ(names(*tokenizer,
                  "\xEF\xBD\x81"
                  "a"),
            names(*tokenizer, "aba"));
  EXPECT_EQ(names(*tokenizer, "\xEF\xBD\x82"), (Names{" ", "<unk>"}));
}

TEST(UnigramTokenizer, a_charsmap_cut_short_is_corrupt_and_one_with_bad_offsets_replaces_nothing) {
  std::vector<int64_t> bytes = charsmap("ab", "x");
  for (const size_t n : {size_t{1}, size_t{4}, size_t{100}, bytes.size() - 2}) {
    Metadata metadata;
    metadata.insert("tokenizer.ggml.precompiled_charsmap",
                    std::vector<int64_t>(bytes.begin(), bytes.begin() + static_cast<long>(n)));
    EXPECT_FALSE(Charsmap::read(metadata)) << n;
  }
  for (size_t i = 4; i < bytes.size() - 2; ++i) bytes[i] = 0xFF;
  Metadata metadata;
  metadata.insert("tokenizer.ggml.precompiled_charsmap", bytes);
  const auto map = Charsmap::read(metadata);
  ASSERT_TRUE(map);
  EXPECT_FALSE(map->longest_at("ab", 0));
}

}  // namespace
}  // namespace kvik
