// Compares masks with a simple method: every token is read byte by byte from the current state.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "constrain/grammar_matcher.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {
namespace {

// Returns pieces of strings, keys and the text between them, split at arbitrary places: in
// characters, in escapes, after quotes.
std::shared_ptr<const VocabularyTrie> vocabulary_of_pieces() {
  const std::vector<std::string> pieces = {
      "a",        "b",
      "ab",       "x",
      " ",        "\"",
      "\",",      "\":",
      "\"}",      "}",
      ",",        "[",
      "]",        "{",
      "{\"",      ":",
      "1",        "0",
      ".",        "-",
      "true",     "nul",
      "\\",       "\\n",
      "\\\"",     "\\u00",
      "\\ud",     "e9",
      "\n",       "é",
      "日",       "😀",
      "\xC3",     "\xA9",
      "\xE6\x97", "\xF0",
      "/",        "name",
      "n",        "kind",
      "\",\"",    "\":\"",
      "\"]",      "\"},{\"",
      "\x7F",     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  std::vector<std::string> tokens = {""};  // a token without text
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string token;
    for (auto n = 2 + random() % 3; n > 0; --n) token += pieces[random() % pieces.size()];
    tokens.push_back(std::move(token));
  }
  return std::make_shared<VocabularyTrie>(std::move(tokens));
}

const std::vector<std::string>& schemas() {
  static const std::vector<std::string> kSchemas = {
      R"({"type":"string"})",
      R"({"type":"string","minLength":1})",
      R"({"type":"string","minLength":3,"maxLength":5})",
      R"({"type":"string","maxLength":70})",
      R"({"type":"string","pattern":"^a"})",
      R"({"type":"string","pattern":"^[^/]+$"})",
      R"({"type":"string","pattern":"^[a-b]{2,60}$","maxLength":50})",
      R"({"type":"string","not":{"enum":["ab","é","a\"b","日x"]}})",
      R"({"type":"string","format":"hostname"})",
      R"({"anyOf":[{"type":"string","maxLength":2},{"enum":["name","日本"]},{"type":"null"}]})",
      R"({})",
      R"({"type":"object"})",
      R"({"type":"object","properties":{"name":{"type":"string"},"é":{"type":"string","minLength":2},
          "n":{"type":"integer"}},"required":["name"]})",
      R"({"type":"object","properties":{"name":{"type":"string"},"kind":{"enum":["a","b"]}},
          "required":["name","kind"],"additionalProperties":false})",
      R"({"type":"object","additionalProperties":{"type":"string"},"maxProperties":2})",
      R"({"type":"object","propertyNames":{"maxLength":3,"minLength":1}})",
      R"({"type":"object","patternProperties":{"^x":{"type":"null"},"b$":{"type":"string"}},
          "additionalProperties":{"type":"boolean"}})",
      R"({"anyOf":[{"type":"object","properties":{"name":{"const":"a"}},"required":["name"]},
          {"type":"object","properties":{"name":{"type":"string","minLength":2},"n":{"const":1}},
          "required":["name","n"],"additionalProperties":false}]})",
      R"({"not":{"type":"object","additionalProperties":{"type":"string"}},"type":"object"})",
      R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
      R"({"type":"array","items":{"enum":["a","ab","日",1,null]},"uniqueItems":true,"minItems":2})",
      R"({"type":"array","items":{"type":["string","number"],"maxLength":2},"uniqueItems":true})",
      R"({"type":"array","uniqueItems":true,"minItems":3})",
      R"({"type":"array","items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"enum":["x",1]}},"additionalProperties":false},"uniqueItems":true,"minItems":2})",
      R"({"type":"array","maxItems":4,"not":{"uniqueItems":true}})",
      R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}})",
  };
  return kSchemas;
}

class Masks : public testing::Test {
 protected:
  // Follows a random text. Returns the number of compared (state, token) pairs.
  size_t walk(CompiledGrammar& compiled, std::mt19937& random) {
    GrammarMatcher matcher = compiled.start();
    const VocabularyTrie& vocabulary = compiled.vocabulary();
    TokenBitmask mask(vocabulary.n_vocab());
    std::string text;
    size_t n_pairs = 0;
    for (int step = 0; step < 24 && !HasFailure(); ++step) {
      EXPECT_TRUE(matcher.mask(mask));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocabulary.n_vocab(); ++id, ++n_pairs) {
        const bool bit = mask.allows(id);
        EXPECT_EQ(bit, *matcher.allows(id)) << text << " + " << vocabulary.bytes(id);
        if (bit) allowed.push_back(id);
      }
      EXPECT_TRUE(!allowed.empty() || *matcher.is_complete()) << text;
      if (allowed.empty()) break;
      const TokenId id = allowed[random() % allowed.size()];
      EXPECT_TRUE(*matcher.accept(id));
      text += vocabulary.bytes(id);
    }
    return n_pairs;
  }

  std::shared_ptr<const VocabularyTrie> vocabulary = vocabulary_of_pieces();
};

// KVIK_ORACLE_PAIRS=10000000 gives a longer run.
TEST_F(Masks, allow_the_tokens_whose_every_byte_may_come) {
  const char* wanted = std::getenv("KVIK_ORACLE_PAIRS");
  const size_t n_wanted = wanted ? std::strtoull(wanted, nullptr, 10) : 1'000'000;
  size_t n_pairs = 0;
  for (uint32_t seed = 0; n_pairs < n_wanted && !HasFailure(); ++seed) {
    for (const std::string& schema : schemas()) {
      SchemaOptions options;
      options.whitespace.max_run = seed % 3;
      auto made = compile_json_schema(schema, options);
      ASSERT_TRUE(made) << schema << made.error().message;
      const auto compiled = CompiledGrammar::make(std::move(made->grammar), vocabulary);
      std::mt19937 random(seed);
      SCOPED_TRACE(schema);
      for (int run = 0; run < 2; ++run) n_pairs += walk(*compiled, random);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvik::constrain
