#include "text/hf/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/derived_vocabularies.h"
#include "text/tokenizer_json.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr TokenizeOptions kPlain = {.add_bos = false};
using Ids = std::vector<TokenId>;

std::unique_ptr<Tokenizer> read(const std::string& json, const TokenizerConfig& config = {}) {
  auto tokenizer = read_tokenizer_json(json, config);
  if (tokenizer) return std::move(*tokenizer);
  ADD_FAILURE() << tokenizer.error().message;
  std::abort();
}

std::string error_of(const std::string& json) {
  const auto tokenizer = read_tokenizer_json(json, {});
  if (tokenizer) return "it loads";
  return tokenizer.error().message;
}

// Returns a tokenizer.json with the model and the members `more`.
std::string file(const std::string& model, const std::string& more = "") {
  return R"({"version": "1.0", )" + more + R"("model": )" + model + "}";
}

std::string bpe(const std::string& vocab, const std::string& merges, const std::string& more = "") {
  return R"({"type": "BPE", "vocab": )" + vocab + R"(, "merges": )" + merges + more + "}";
}

const std::string kAbc = bpe(R"({"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, " ": 5, "?": 6})",
                             R"(["a b", ["ab", "c"]])");

// Returns texts that exercise every part of a tokenizer.
std::vector<std::string> texts() {
  const std::vector<std::string> parts = {"the ",     "Hello",     " world",
                                          "'LL",      "don't",     "  ",
                                          "\n\n",     "\t",        " 12345 ",
                                          "3.14",     "é",         "e\xCC\x81",
                                          "日本語",   "привет ",   "👨‍👩‍👧",
                                          "x_y",      "</s>",      "<s>",
                                          "▁",        "{}[]",      "!?…",
                                          "ſ",        "\xC2\xA0",  "\xE3\x80\x80",
                                          "\xC2\x85", "ÉCOLE",     "İ",
                                          "ﬁ",        "camelCase", "#"};
  std::vector<std::string> all = {"", " ", "a"};
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string& text = all.emplace_back();
    for (size_t n = 1 + random() % 12; n > 0; --n) text += parts[random() % parts.size()];
  }
  return all;
}

TEST(TokenizerJson, says_the_same_as_the_vocabulary_that_it_expresses) {
  std::vector<std::pair<std::string, Metadata>> all;
  for (const std::string& path : vocabulary_files()) {
    const Metadata metadata = *metadata_of_file(path);
    all.emplace_back(path, metadata);
    if (path.ends_with("llama-spm.gguf")) all.emplace_back("as gemma4", as_gemma4(metadata));
    if (!path.ends_with("gpt-2.gguf")) continue;
    all.emplace_back("as word-piece", as_word_piece(metadata));
    for (const char* pre : {"llama-bpe", "qwen2", "deepseek-v3", "gpt-4o", "kimi-k2"}) {
      all.emplace_back(pre, with(metadata, "tokenizer.ggml.pre", std::string(pre)));
    }
  }
  for (const auto& [name, metadata] : all) {
    SCOPED_TRACE(name);
    const auto ours = load(metadata);
    const auto same = read(tokenizer_json(metadata, Specials::kAdd));
    for (const std::string& text : texts()) {
      ASSERT_EQ(same->tokenize(text, kPlain), ours->tokenize(text, kPlain)) << text;
      const auto ids = ours->tokenize(text, kPlain);
      if (name == "as word-piece")
        continue;  // tokenizer.json marks the continuations of words, GGUF their beginnings
      ASSERT_EQ(same->detokenize(ids, Tokenizer::Special::kHide),
                ours->detokenize(ids, Tokenizer::Special::kHide));
    }
  }
}

TEST(TokenizerJson, special_tokens_are_parsed_only_where_they_are_trusted) {
  for (const std::string& path : vocabulary_files()) {
    if (!path.ends_with("llama-spm.gguf")) continue;
    const auto tokenizer = read(tokenizer_json(*metadata_of_file(path), Specials::kAdd));
    EXPECT_EQ(tokenizer->tokenize("</s>", {.add_bos = false, .parse_special = true}), Ids{2});
    EXPECT_GT(tokenizer->tokenize("</s>", kPlain).size(), 1u);
    EXPECT_EQ(tokenizer->kind(2), TokenKind::kControl);
    EXPECT_EQ(tokenizer->kind(13), TokenKind::kByte);
  }
}

TEST(TokenizerJson, merges_join_in_their_order) {
  EXPECT_EQ(read(file(kAbc))->tokenize("abcab", kPlain), (Ids{4, 3}));
  EXPECT_EQ(read(file(kAbc))->detokenize(Ids{4, 3}, Tokenizer::Special::kHide), "abcab");
  EXPECT_EQ(read(file(kAbc))->describe(), "tokenizer.json (BPE), 7 tokens");
}

TEST(TokenizerJson, added_tokens_keep_their_flags) {
  const auto added = [](const std::string& flags) {
    return R"("added_tokens": [{"id": 7, "content": "bc", "special": false, "normalized": false, )" +
           flags + "}], ";
  };
  EXPECT_EQ(read(file(kAbc, added(R"("lstrip": false)")))->tokenize("abc bc a", kPlain),
            (Ids{0, 7, 5, 7, 5, 0}));
  EXPECT_EQ(read(file(kAbc, added(R"("lstrip": true)")))->tokenize("a bc a", kPlain),
            (Ids{0, 7, 5, 0}));
  EXPECT_EQ(read(file(kAbc, added(R"("rstrip": true)")))->tokenize("a bc a", kPlain),
            (Ids{0, 5, 7, 0}));
  EXPECT_EQ(read(file(kAbc, added(R"("single_word": true)")))->tokenize("abc bc", kPlain),
            (Ids{4, 5, 7}));
}

TEST(TokenizerJson, an_added_token_may_be_found_in_the_normalized_text) {
  const std::string more =
      R"("added_tokens": [{"id": 7, "content": "BC", "normalized": NORMALIZED}],
                              "normalizer": {"type": "Lowercase"}, )";
  const auto with_flag = [&](const std::string& flag) {
    std::string all = more;
    return read(file(kAbc, all.replace(all.find("NORMALIZED"), 10, flag)));
  };
  EXPECT_EQ(with_flag("true")->tokenize("abc", kPlain), (Ids{0, 7}));
  EXPECT_EQ(with_flag("false")->tokenize("aBC", kPlain), (Ids{0, 7}));
  EXPECT_EQ(with_flag("false")->tokenize("abc", kPlain), Ids{4});
}

TEST(TokenizerJson, a_template_puts_tokens_around_a_text) {
  const std::string more = R"("added_tokens": [{"id": 7, "content": "<s>", "special": true},
      {"id": 8, "content": "</s>", "special": true}],
    "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [7]}, "</s>": {"id": "</s>", "ids": [8]}}}]}, )";
  const auto tokenizer = read(file(kAbc, more));
  EXPECT_EQ(tokenizer->tokenize("a", {}), (Ids{7, 0, 8}));
  EXPECT_EQ(tokenizer->bos(), 7u);
  EXPECT_EQ(tokenizer->end_tokens().size(), 1u);
}

TEST(TokenizerJson, its_config_names_bos_eos_and_the_chat_template) {
  const std::string more = R"("added_tokens": [{"id": 7, "content": "<s>", "special": true},
      {"id": 8, "content": "<end>", "special": true}], )";
  const auto tokenizer =
      read(file(kAbc, more), {.bos_token = "<s>", .eos_token = "<end>", .chat_template = "{{x}}"});
  EXPECT_EQ(tokenizer->bos(), 7u);
  EXPECT_EQ(tokenizer->eos(), 8u);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->end_tokens()[0], 8u);
  EXPECT_EQ(tokenizer->chat_template(), "{{x}}");
}

TEST(TokenizerJson, its_config_has_the_last_word_about_frames_and_ends) {
  const std::string more = R"("added_tokens": [{"id": 7, "content": "<s>", "special": true},
      {"id": 8, "content": "</s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [7]}}}, )";
  const auto without = read(file(kAbc, more), {.adds_bos = false});
  EXPECT_EQ(without->tokenize("a", {}), Ids{0});
  const auto both = read(file(kAbc, more), {.eos_token = "</s>", .adds_eos = true});
  EXPECT_EQ(both->tokenize("a", {}), (Ids{7, 0, 8}));
  EXPECT_FALSE(read(file(kAbc), {.adds_bos = true})->adds_bos());  // the vocabulary has no BOS
  const auto ends = read(file(kAbc, more), {.eos_token = "</s>", .end_ids = {8, 4, 9, 1ull << 40}});
  EXPECT_EQ(std::vector(ends->end_tokens().begin(), ends->end_tokens().end()), (Ids{8, 4}));
}

TEST(TokenizerJson, there_are_as_many_tokens_as_the_model_has) {
  const std::string more = R"("added_tokens": [{"id": 7, "content": "<s>", "special": true},
      {"id": 8, "content": "bc", "normalized": true}], "normalizer": {"type": "Lowercase"}, )";
  const auto padded = read(file(kAbc, more), {.n_vocab = 20});
  EXPECT_EQ(padded->n_vocab(), 20u);
  EXPECT_EQ(padded->kind(19), TokenKind::kUnused);
  EXPECT_EQ(padded->piece(19, Tokenizer::Special::kShow), "");
  EXPECT_EQ(padded->tokenize("abc", kPlain), (Ids{0, 8}));
  const auto cut = read(file(kAbc, more), {.n_vocab = 8});
  EXPECT_EQ(cut->n_vocab(), 8u);
  EXPECT_EQ(cut->tokenize("abc", kPlain), Ids{4});
  for (const uint32_t n_vocab : {0u, 6u, 1u << 24}) {
    const auto refused = read_tokenizer_json(file(kAbc, more), {.n_vocab = n_vocab});
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, testing::HasSubstr(std::to_string(n_vocab)));
  }
}

TEST(TokenizerJson, it_may_stand_in_the_metadata_of_a_model) {
  Metadata metadata;
  metadata.insert("tokenizer.huggingface.json", file(kAbc));
  metadata.insert("tokenizer.huggingface.n_vocab", uint64_t{9});
  metadata.insert("tokenizer.huggingface.end_ids", std::vector<uint64_t>{2});
  metadata.insert("tokenizer.chat_template", std::string("{{x}}"));
  const auto tokenizer = Tokenizer::from_metadata(metadata);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->tokenize("abcab", kPlain), (Ids{4, 3}));
  EXPECT_EQ((*tokenizer)->n_vocab(), 9u);
  EXPECT_EQ((*tokenizer)->end_tokens()[0], 2u);
  EXPECT_EQ((*tokenizer)->chat_template(), "{{x}}");
}

// Returns the pieces of a pre-tokenizer, made visible by a vocabulary with one token per character
// and one for each expected word.
Ids cut(const std::string& pre_tokenizer, const std::string& text) {
  const std::string model = bpe(
      R"({"a": 0, "b": 1, "-": 2, " ": 3, "1": 4, "aa": 5, "a-": 6, "-a": 7, "--": 8, "11": 9, "▁": 10, "▁a": 11})",
      R"(["a a", "a -", "- a", "- -", "1 1", "▁ a"])");
  return read(file(model, R"("pre_tokenizer": )" + pre_tokenizer + ", "))->tokenize(text, kPlain);
}

TEST(TokenizerJson, delimiters_go_where_their_behavior_says) {
  const auto split = [](const std::string& behavior) {
    return cut(
        R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + behavior + R"("})",
        "a--a");
  };
  EXPECT_EQ(split("Removed"), (Ids{0, 0}));
  EXPECT_EQ(split("Isolated"), (Ids{0, 2, 2, 0}));
  EXPECT_EQ(split("MergedWithPrevious"), (Ids{6, 2, 0}));
  EXPECT_EQ(split("MergedWithNext"), (Ids{0, 2, 7}));
  EXPECT_EQ(split("Contiguous"), (Ids{0, 8, 0}));
}

TEST(TokenizerJson, pre_tokenizers_cut_as_theirs_do) {
  EXPECT_EQ(cut(R"({"type": "WhitespaceSplit"})", "a a"), (Ids{0, 0}));
  EXPECT_EQ(cut(R"({"type": "Whitespace"})", "a- a"), (Ids{0, 2, 0}));
  EXPECT_EQ(cut(R"({"type": "Punctuation"})", "a--a"), (Ids{0, 2, 2, 0}));
  EXPECT_EQ(cut(R"({"type": "Digits", "individual_digits": true})", "11"), (Ids{4, 4}));
  EXPECT_EQ(cut(R"({"type": "Digits"})", "11"), Ids{9});
  EXPECT_EQ(cut(R"({"type": "BertPreTokenizer"})", "a -a"), (Ids{0, 2, 0}));
  EXPECT_EQ(cut(R"({"type": "CharDelimiterSplit", "delimiter": "b"})", "aba"), (Ids{0, 0}));
  EXPECT_EQ(cut(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})", "a a"),
            (Ids{11, 11}));
  EXPECT_EQ(cut(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})", "a a"),
            (Ids{0, 11}));
  EXPECT_EQ(
      cut(R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed", "invert": true})",
          "ab a"),
      (Ids{0, 0}));
}

TEST(TokenizerJson, normalizers_change_text_as_theirs_do) {
  const auto normal = [](const std::string& normalizer, const std::string& text) {
    const auto tokenizer =
        read(file(bpe(R"({"<unk>": 0})", "[]", R"(, "unk_token": "<unk>", "byte_fallback": false)"),
                  R"("normalizer": )" + normalizer + ", "));
    return tokenizer->tokenize(text, kPlain).size();  // one unknown token per character
  };
  EXPECT_EQ(normal(R"({"type": "NFC"})", "e\xCC\x81"), 1u);
  EXPECT_EQ(normal(R"({"type": "NFD"})", "\xC3\xA9"), 2u);
  EXPECT_EQ(normal(R"({"type": "NFKC"})", "\xEF\xAC\x81"), 2u);
  EXPECT_EQ(normal(R"({"type": "NFKD"})", "\xC3\xA9\xEF\xAC\x81"), 4u);
  EXPECT_EQ(normal(R"({"type": "Strip"})", " \n ab\t"), 2u);
  EXPECT_EQ(normal(R"({"type": "Prepend", "prepend": "__"})", "a"), 3u);
  EXPECT_EQ(normal(R"({"type": "Lowercase"})", "\xC4\xB0"), 2u);
  EXPECT_EQ(normal(R"({"type": "StripAccents"})", "e\xCC\x81"), 1u);
  EXPECT_EQ(normal(R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"})", "a   b"),
            3u);
  EXPECT_EQ(
      normal(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]})",
             "\xC3\xA9\xC3\xA9"),
      2u);
  EXPECT_EQ(normal(R"({"type": "BertNormalizer"})", "\xC3\x89\x01\xE6\x88\x91"), 4u);  // "e 我 "
}

TEST(TokenizerJson, a_regex_that_never_ends_gives_up) {
  const auto tokenizer = read(file(
      kAbc,
      R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}, )"));
  EXPECT_EQ(tokenizer->tokenize(std::string(5000, 'a') + "b", kPlain).size(), 5000u);
}

// Nothing is timed here: a quadratic step would take hours.
TEST(TokenizerJson, a_megabyte_of_anything_is_cut_as_the_scanners_cut_it) {
  for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-v3", "gpt-4o"}) {
    SCOPED_TRACE(pre);
    const Metadata metadata =
        with(toy_bpe({"a a", "aa aa", "1 1"}), "tokenizer.ggml.pre", std::string(pre));
    const auto ours = load(metadata);
    const auto same = read(tokenizer_json(metadata, Specials::kLeaveOut));
    for (const std::string unit : {"a", " ", "\n", "7", "aA", "'re", "\xE6\x88\x91", "\t x"}) {
      std::string text;
      while (text.size() < size_t{1} << 20) text += unit;
      EXPECT_TRUE(same->tokenize(text, kPlain) == ours->tokenize(text, kPlain)) << unit;
    }
  }
}

TEST(TokenizerJson, what_is_wrong_is_named_in_a_sentence) {
  const auto has = [](const std::string& json, const std::string& part) {
    EXPECT_NE(error_of(json).find(part), std::string::npos) << error_of(json);
  };
  has("", "cannot be parsed as JSON");
  has("[1, 2]", "expected an object");
  has("{}", "'model' is missing");
  has(std::string(10'000, '[') + std::string(10'000, ']'), "cannot be parsed as JSON");
  has(file(bpe(R"({"a": 0, "b": 0})", "[]")), "an id of its own, but 'a' has it too");
  has(file(bpe(R"({"a": -1})", "[]")), "expected an id below");
  has(file(bpe(R"({"a": 4000000000})", "[]")), "expected an id below");
  has(file(bpe(R"({"a": 0})", R"(["a b"])")), "but 'b' is not a token");
  has(file(bpe(R"({"a": 0, "b": 1})", R"(["a b"])")), "but 'ab' is not a token");
  has(file(bpe(R"({"a": 0})", R"(["ab"])")), "two tokens separated by a space");
  has(file(bpe(R"({"a": 0})", R"([7])")), "two tokens separated by a space");
  has(file(bpe(R"({"a": 0})", "[]", R"(, "unk_token": "?")")), "a token of the vocabulary");
  has(file(kAbc, R"("added_tokens": [{"id": 0, "content": "x"}], )"), "'a' has it too");
  has(file(kAbc, R"("added_tokens": [{"id": 9, "content": "a"}], )"), "token 0 has it too");
  has(file(kAbc, R"("added_tokens": [{"id": 900000000, "content": "x"}], )"), "an id below");
  has(file(R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": 3})"), "a token below 1");
  has(file(R"({"type": "Unigram", "vocab": [["a", 0], ["a", 1]], "unk_id": 0})"), "no other token");
  has(file(R"({"type": "Markov"})"), "expected BPE, Unigram or WordPiece");
  has(file(kAbc, R"("normalizer": {"type": "Rot13"}, )"), "'normalizer.type' is 'Rot13'");
  has(file(kAbc, R"("decoder": {"type": "CTC"}, )"), "'decoder.type' is 'CTC'");
  for (const char* regex : {"(", "((((a{900}){900}){900}){900})", "(?<n>a)(?<n>", "[z-a]"}) {
    has(file(kAbc, std::string(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": ")") +
                       regex + R"("}, "behavior": "Isolated"}, )"),
        "expected one that can be read");
  }
  has(file(kAbc, R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": ")" +
                     std::string(100'000, 'a') + R"("}, "behavior": "Isolated"}, )"),
      "expected at most");
}

}  // namespace
}  // namespace kvik
