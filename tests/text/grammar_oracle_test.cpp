// Random grammars of few texts, matched token by token beside a matcher that is slow and plain: it
// has written all texts of the grammar down.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "text/grammar/grammar.h"
#include "text/grammar/matcher.h"

namespace kvik::grammar {
namespace {

using Texts = std::set<std::string>;

// Texts beyond this many make a grammar too large to be written down.
constexpr size_t kMaxTexts = 300;

// Once true, what was written down is not all.
bool too_many = false;

Texts joined(const Texts& a, const Texts& b) {
  Texts both;
  for (const std::string& one : a) {
    for (const std::string& other : b) both.insert(one + other);
    too_many |= both.size() > kMaxTexts;
    if (too_many) break;
  }
  return both;
}

Texts united(Texts a, const Texts& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// The same set of texts twice: as part of a grammar and written down.
template <class Form>
struct Both {
  Form form;
  Texts texts;
};

class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {}

  Builder& builder() { return builder_; }

  Both<Node> node(int depth) {
    const int kind = depth == 0 ? below(2) : below(7);
    switch (kind) {
      case 0:
      case 1: {
        const Both<Regular> text = regular(2);
        if (kind == 0) return {builder_.text(text.form), text.texts};
        return {builder_.json_string(text.form), quoted(text.texts)};
      }
      case 2: {
        const auto a = node(depth - 1), b = node(depth - 1);
        return {builder_.sequence(std::array{a.form, b.form}), joined(a.texts, b.texts)};
      }
      case 3: {
        const auto a = node(depth - 1), b = node(depth - 1);
        return {builder_.choice(std::array{a.form, b.form}), united(a.texts, b.texts)};
      }
      case 4: {
        const auto part = node(depth - 1);
        const uint32_t min = static_cast<uint32_t>(below(2)), max = min + 1;
        const Node rule = builder_.rule("r");
        builder_.define(rule, builder_.repeat(part.form, min, max));
        return {rule, repeated(part.texts, min, max)};
      }
      case 5:
        return array(depth);
      default:
        return object(depth);
    }
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  static Texts quoted(const Texts& texts) {
    Texts all;
    for (const std::string& text : texts) all.insert("\"" + text + "\"");
    return all;
  }

  static Texts repeated(const Texts& part, uint32_t min, uint32_t max) {
    Texts all, power = {""};
    for (uint32_t n = 0; n <= max; ++n) {
      if (n >= min) all = united(std::move(all), power);
      power = joined(power, part);
    }
    return all;
  }

  Both<Regular> regular(int depth) {
    RegularPool& pool = builder_.regulars();
    const int kind = depth == 0 ? 0 : below(6);
    if (kind == 0) {
      const char32_t c = U"ab"[below(2)];
      return {pool.characters({{c, c}}), {std::string(1, static_cast<char>(c))}};
    }
    const auto a = regular(depth - 1), b = regular(depth - 1);
    switch (kind) {
      case 1:
        return {pool.sequence(a.form, b.form), joined(a.texts, b.texts)};
      case 2:
        return {pool.choice(a.form, b.form), united(a.texts, b.texts)};
      case 3: {
        Texts both;
        for (const std::string& text : a.texts) {
          if (b.texts.contains(text)) both.insert(text);
        }
        return {pool.intersection(a.form, b.form), both};
      }
      case 4: {
        Texts rest;
        for (const std::string& text : a.texts) {
          if (!b.texts.contains(text)) rest.insert(text);
        }
        return {pool.difference(a.form, b.form), rest};
      }
      default: {
        const uint32_t min = static_cast<uint32_t>(below(3)), max = min + 2;
        return {pool.repeat(a.form, min, max), repeated(a.texts, min, max)};
      }
    }
  }

  Both<Node> array(int depth) {
    const auto item = node(depth - 1), first = node(depth - 1);
    ArrayForm form;
    form.first = {{{first.form}}};
    form.rest = {{item.form}};
    form.min = static_cast<uint32_t>(below(2));
    form.max = form.min + static_cast<uint32_t>(below(2));
    Texts all, inside = {""};
    for (uint32_t n = 0; n <= form.max; ++n) {
      if (n >= form.min) all = united(std::move(all), joined(joined({"["}, inside), {"]"}));
      inside = n == 0 ? first.texts : joined(joined(inside, {","}), item.texts);
    }
    return {builder_.array(std::move(form)), all};
  }

  Both<Node> object(int depth) {
    const auto a = node(depth - 1), b = node(0);
    ObjectForm form;
    const bool a_required = below(2) == 0, needs = below(2) == 0;
    form.properties = {{U"ab", a.form, a_required, {}}, {U"a", b.form, false, {}}};
    if (needs) form.properties[1].needs = {0};
    form.max = static_cast<uint32_t>(1 + below(2));
    const Texts first = joined({"\"ab\":"}, a.texts), second = joined({"\"a\":"}, b.texts);
    Texts inside;
    if (!a_required) inside.insert("");
    inside = united(std::move(inside), first);
    if (!a_required && !needs) inside = united(std::move(inside), second);
    if (form.max == 2) {
      inside = united(std::move(inside), joined(joined(first, {","}), second));
      inside = united(std::move(inside), joined(joined(second, {","}), first));
    }
    return {builder_.object(std::move(form)), joined(joined({"{"}, inside), {"}"})};
  }

  Builder builder_;
  std::mt19937 random_;
};

std::shared_ptr<const VocabularyTrie> small_vocabulary() {
  std::vector<std::string> tokens;
  for (const char c : std::string_view("ab\"[]{},:\\x")) tokens.emplace_back(1, c);
  for (const std::string_view token :
       {"aa",  "ab", "ba",    "abab",     "\"a",  "a\"",  "\":", "\",\"", "{\"", "},", "\"}",
        "[\"", "]]", "ab\":", "\"a\":\"", "b\"]", ",\"a", "aaa", "\"\"",  ",a",  "b}"}) {
    tokens.emplace_back(token);
  }
  return std::make_shared<VocabularyTrie>(std::move(tokens));
}

bool begins_some(const Texts& texts, const std::string& prefix) {
  const auto found = texts.lower_bound(prefix);
  return found != texts.end() && found->starts_with(prefix);
}

// Steps through one grammar; the number of (state, token) pairs that were looked at.
size_t walk(const Both<Node>& both, Builder& builder, uint32_t seed) {
  auto grammar = builder.finish(both.form);
  EXPECT_EQ(grammar.has_value(), !both.texts.empty()) << seed;
  if (!grammar || both.texts.empty()) return 0;
  const auto constraint = Constraint::make(*grammar, small_vocabulary());
  const VocabularyTrie& vocabulary = constraint->vocabulary();
  std::mt19937 random(seed);
  std::vector<uint64_t> mask(vocabulary.n_mask_words());
  size_t n_pairs = 0;
  for (int run = 0; run < 6; ++run) {
    Matcher matcher = constraint->start();
    for (std::string text;;) {
      EXPECT_TRUE(matcher.mask(mask));
      EXPECT_EQ(*matcher.is_complete(), both.texts.contains(text)) << seed << ": " << text;
      const auto forced = matcher.forced_bytes(20);
      EXPECT_TRUE(both.texts.contains(text) ? forced->empty()
                                            : begins_some(both.texts, text + *forced));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocabulary.n_vocab(); ++id, ++n_pairs) {
        const bool bit = (mask[id / 64] >> (id % 64) & 1) != 0;
        const bool possible = begins_some(both.texts, text + vocabulary.bytes(id));
        // The plain matcher writes no escapes.
        if (vocabulary.bytes(id) != "\\") {
          EXPECT_EQ(bit, possible) << seed << ": " << text << " + " << vocabulary.bytes(id);
        }
        if (bit && possible) allowed.push_back(id);
      }
      if (allowed.empty() || ::testing::Test::HasFailure()) break;
      const TokenId id = allowed[random() % allowed.size()];
      EXPECT_TRUE(*matcher.accept(id));
      text += vocabulary.bytes(id);
    }
  }
  return n_pairs;
}

// KVIK_ORACLE_PAIRS=10000000 for a longer run.
TEST(GrammarOracle, masks_are_those_of_a_matcher_that_has_all_texts_written_down) {
  const char* wanted = std::getenv("KVIK_ORACLE_PAIRS");
  const size_t n_wanted = wanted ? std::strtoull(wanted, nullptr, 10) : 1'000'000;
  size_t n_pairs = 0;
  for (uint32_t seed = 0; n_pairs < n_wanted && !HasFailure(); ++seed) {
    RandomGrammar random(seed);
    too_many = false;
    const auto both = random.node(3);
    if (too_many || both.texts.size() > kMaxTexts) continue;
    n_pairs += walk(both, random.builder(), seed);
  }
  EXPECT_GE(n_pairs, n_wanted);
}

}  // namespace
}  // namespace kvik::grammar
