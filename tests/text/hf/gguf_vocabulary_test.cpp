#include "text/hf/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "text/hf/tokenizer_json.h"
#include "text/tokenizer_json.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

// Returns the metadata of a folder with this tokenizer.json.
Metadata folder_of(std::string json) {
  Metadata folder;
  folder.insert("tokenizer.huggingface.json", std::move(json));
  return folder;
}

constexpr std::string_view kTexts[] = {
    "",
    "The quick brown fox jumps over the lazy dog.",
    "  def f(x):\n\t\treturn {'a': 12345, \"b\": x**2}  # it's\r\n\r\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "いろはにほへと ちりぬるを 漢字 ＡＢＣ １２３ 😀👩‍👩‍👧",
};

// Texts that are not UTF-8 are skipped: a tokenizer.json sees U+FFFD there, GGUF's kinds the bytes.
void expect_alike(const Metadata& folder) {
  const auto expressed = gguf_vocabulary(folder);
  ASSERT_TRUE(expressed.has_value()) << expressed.error().message;
  const auto ours = load(folder);
  const auto theirs = load(*expressed);
  EXPECT_EQ(ours->n_vocab(), theirs->n_vocab());
  EXPECT_EQ(ours->bos(), theirs->bos());
  EXPECT_EQ(ours->eos(), theirs->eos());
  EXPECT_EQ(ours->adds_bos(), theirs->adds_bos());
  for (const std::string_view text : kTexts)
    EXPECT_EQ(ours->tokenize(text, {}), theirs->tokenize(text, {})) << text;
  using enum TokenKind;
  for (TokenId id = 0; id < ours->n_vocab(); ++id) {
    if (ours->kind(id) == kUnused || theirs->kind(id) == kUnknown) continue;
    ASSERT_EQ(ours->kind(id), theirs->kind(id)) << id;
    constexpr auto kShow = Tokenizer::Special::kShow;
    ASSERT_EQ(ours->piece(id, kShow), theirs->piece(id, kShow)) << id;
  }
}

// Returns a folder equivalent to the file, including BOS and EOS.
Metadata folder_of(const Metadata& file) {
  Metadata folder = folder_of(tokenizer_json(file, Specials::kAdd));
  const auto tokenizer = load(file);
  const auto name = [&](const char* key, std::optional<TokenId> id) {
    if (id) folder.insert(key, tokenizer->piece(*id, Tokenizer::Special::kShow));
  };
  name("tokenizer.huggingface.bos_token", tokenizer->bos());
  name("tokenizer.huggingface.eos_token", tokenizer->eos());
  folder.insert("tokenizer.ggml.add_bos_token", tokenizer->adds_bos());
  return folder;
}

TEST(GgufVocabulary, the_demos_tokens_survive_the_way_there_and_back) {
  const auto demo = metadata_of_file(KVIK_SOURCE_DIR "/models/demo.gguf");
  ASSERT_TRUE(demo);
  expect_alike(folder_of(*demo));
}

TEST(GgufVocabulary, real_vocabularies_survive_the_way_there_and_back) {
  if (vocabulary_folder().empty()) GTEST_SKIP() << "no vocabularies beside this checkout";
  for (const std::string& path : vocabulary_files()) {
    SCOPED_TRACE(path);
    const auto metadata = metadata_of_file(path);
    ASSERT_TRUE(metadata);
    expect_alike(folder_of(*metadata));
  }
}

TEST(GgufVocabulary, composing_characters_is_left_out_and_other_normalizers_are_refused) {
  const auto normalized = [](const std::string& type) {
    std::string json = tokenizer_json(toy_bpe(), Specials::kAdd);
    const std::string none = R"("normalizer":null)";
    json.replace(json.find(none), none.size(), R"("normalizer":{"type":")" + type + R"("})");
    return gguf_vocabulary(folder_of(json));
  };
  EXPECT_TRUE(normalized("NFC").has_value());
  EXPECT_FALSE(normalized("Lowercase").has_value());
}

TEST(GgufVocabulary, word_pieces_get_the_space_marks_of_gguf) {
  const Metadata folder = folder_of(std::string(R"({"version": "1.0",
    "added_tokens": [{"id": 0, "content": "[PAD]", "special": true},
                     {"id": 1, "content": "[UNK]", "special": true},
                     {"id": 2, "content": "[CLS]", "special": true},
                     {"id": 3, "content": "[SEP]", "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "un": 4, "##able": 5,
                        "##un": 6, "fox": 7, "漢": 8}}})"));
  const auto expressed = gguf_vocabulary(folder);
  ASSERT_TRUE(expressed.has_value()) << expressed.error().message;
  const auto ours = load(folder);
  const auto theirs = load(*expressed);
  for (const std::string_view text : kTexts)
    EXPECT_EQ(ours->tokenize(text, {}), theirs->tokenize(text, {})) << text;
  EXPECT_EQ(theirs->tokenize("UNable Füx fox", {}), (std::vector<TokenId>{2, 4, 5, 1, 7, 3}));
  const auto tokens = expressed->get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ((**tokens)[3], "[SEP]");
  EXPECT_EQ((**tokens)[4], "\xE2\x96\x81un");
  EXPECT_EQ((**tokens)[5], "able");
}

TEST(GgufVocabulary, what_ends_an_answer_is_kept) {
  Metadata folder = folder_of(tokenizer_json(toy_bpe(), Specials::kAdd));
  folder.insert("tokenizer.huggingface.eos_token", std::string("<|end|>"));
  folder.insert("tokenizer.huggingface.end_ids", std::vector<uint64_t>{65, 66});
  const auto expressed = gguf_vocabulary(folder);
  ASSERT_TRUE(expressed.has_value()) << expressed.error().message;
  const auto tokenizer = load(*expressed);
  const auto ends = tokenizer->end_tokens();
  for (const TokenId id : {257u, 65u, 66u}) EXPECT_EQ(std::ranges::count(ends, id), 1) << id;
}

TEST(GgufVocabulary, numbers_without_a_token_are_unused) {
  Metadata folder = folder_of(tokenizer_json(toy_bpe(), Specials::kAdd));
  folder.insert("tokenizer.huggingface.n_vocab", uint64_t{300});
  const auto expressed = gguf_vocabulary(folder);
  ASSERT_TRUE(expressed.has_value()) << expressed.error().message;
  const auto tokenizer = load(*expressed);
  EXPECT_EQ(tokenizer->n_vocab(), 300u);
  EXPECT_EQ(tokenizer->kind(299), TokenKind::kUnused);
}

TEST(GgufVocabulary, a_pre_tokenizer_without_a_name_is_refused) {
  std::string json = tokenizer_json(toy_bpe(), Specials::kAdd);
  const std::string whole = R"("use_regex":true)";
  const size_t at = json.find(whole);
  ASSERT_NE(at, json.npos);
  json.replace(at, whole.size(), R"("use_regex":false)");
  const auto expressed = gguf_vocabulary(folder_of(json));
  ASSERT_FALSE(expressed.has_value());
  EXPECT_EQ(expressed.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(expressed.error().message.find("splits words unlike every named one"),
            std::string::npos);
}

TEST(GgufVocabulary, other_models_are_refused) {
  const auto expressed =
      gguf_vocabulary(folder_of(R"({"model":{"type":"Unigram","vocab":[["a",0.0]],"unk_id":0}})"));
  ASSERT_FALSE(expressed.has_value());
  EXPECT_EQ(expressed.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvik
