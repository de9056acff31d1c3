// Compares random grammars with few texts, token by token, with a slow and simple matcher that
// enumerates all texts of the grammar. The same is done for JSON arrays whose items must differ.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include "constrain/grammar.h"
#include "constrain/grammar_matcher.h"

namespace kvik::constrain {
namespace {

using Texts = std::set<std::string>;

// Grammars with more texts are not enumerated.
constexpr size_t kMaxTexts = 300;

// True if the enumeration is incomplete.
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

// The same set of texts as a part of a grammar and as an enumeration.
template <class Form, class All = Texts>
struct Both {
  Form form;
  All texts;
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

// Maps the text of each value to the text shared by all equal values.
using Values = std::map<std::string, std::string>;

// JSON with few values, in arrays whose items must all differ or of which some must be equal.
class RandomValues {
 public:
  explicit RandomValues(uint32_t seed) : random_(seed) {}

  Builder& builder() { return builder_; }

  Both<Node, Values> array(int depth) {
    ArrayForm form;
    const int kind = below(5);
    form.unique = kind < 3;
    form.repeated = kind == 3;
    std::vector<Both<Node, Values>> places;
    const auto n_first = static_cast<size_t>(below(3));
    // For places whose values are known to be equal, the values possible at both are known as well.
    for (size_t i = 0; i <= n_first; ++i) {
      places.push_back(form.repeated && i > 0 && below(2) == 0 ? places[0] : value(depth - 1));
    }
    for (size_t i = 0; i < n_first; ++i) form.first.push_back({{places[i].form}});
    form.rest = {{places[n_first].form}};
    form.min = static_cast<uint32_t>(below(4));
    form.max = std::max<uint32_t>(form.min, 2) + static_cast<uint32_t>(below(2));
    if (form.repeated) {
      for (size_t a = 0; a <= n_first; ++a) {
        auto& both = form.both.emplace_back();
        for (size_t b = a; b <= n_first; ++b) both.push_back(both_of(places[a], places[b]));
      }
    } else if (below(3) == 0) {
      contain(form, places);
    }
    Values all;
    std::vector<std::string> items;
    write_arrays(form, places, {"[", "["}, items, all);
    return {builder_.array(std::move(form)), all};
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  Both<Node, Values> value(int depth) {
    switch (depth == 0 ? below(3) : below(7)) {
      case 0:
        return plain({{"1", "1"}, {"1.0", "1"}, {"2", "2"}});
      case 1:
        return below(2) == 0 ? plain({{"null", "null"}}) : plain({{"1", "1"}, {"1.0", "1"}});
      case 2: {
        RegularPool& pool = builder_.regulars();
        std::vector<std::u32string> texts = {U"a"};
        Values values = {{"\"a\"", "\"a\""}};
        if (below(2) == 0) {
          texts.push_back(U"ab");
          values["\"ab\""] = "\"ab\"";
        }
        return {builder_.json_string(pool.one_of(texts)), values};
      }
      case 3: {
        const auto a = value(depth - 1), b = value(depth - 1);
        Values values = a.texts;
        values.insert(b.texts.begin(), b.texts.end());
        const Node rule = builder_.rule("r");
        builder_.define(rule, builder_.choice(std::array{a.form, b.form}));
        return {rule, values};
      }
      case 4:
        return array(depth);
      default:
        return object(depth);
    }
  }

  Both<Node, Values> plain(const Values& values) {
    std::vector<std::u32string> texts;
    for (const auto& [text, key] : values) texts.emplace_back(text.begin(), text.end());
    return {builder_.text(builder_.regulars().one_of(texts)), values};
  }

  Both<Node, Values> object(int depth) {
    const auto a = value(depth - 1), b = value(depth - 1);
    ObjectForm form;
    const bool a_required = below(2) == 0, b_required = below(2) == 0;
    form.properties = {{U"ab", a.form, a_required, {}}, {U"a", b.form, b_required, {}}};
    Values all;
    const auto add = [&](bool has_a, bool has_b) {
      if ((a_required && !has_a) || (b_required && !has_b)) return;
      if (!has_a && !has_b) all["{}"] = "{}";
      for (const auto& [a_text, a_key] : a.texts) {
        for (const auto& [b_text, b_key] : b.texts) {
          const std::string one = "\"ab\":" + a_text, other = "\"a\":" + b_text;
          const std::string key =
              (has_a ? "\"ab\":" + a_key : "") + (has_b ? "\"a\":" + b_key : "");
          if (has_a && has_b) {
            all["{" + one + "," + other + "}"] = key;
            all["{" + other + "," + one + "}"] = key;
          } else if (has_a) {
            all["{" + one + "}"] = key;
          } else if (has_b) {
            all["{" + other + "}"] = key;
          }
        }
      }
      too_many |= all.size() > kMaxTexts;
    };
    for (const bool has_a : {false, true}) {
      for (const bool has_b : {false, true}) add(has_a, has_b);
    }
    return {builder_.object(std::move(form)), all};
  }

  // Returns a node for the values of both.
  Node both_of(const Both<Node, Values>& a, const Both<Node, Values>& b) {
    if (a.form == b.form) return a.form;
    std::vector<Node> either;
    for (const auto& [text, key] : a.texts) {
      const bool is_both =
          std::ranges::any_of(b.texts, [&](const auto& other) { return other.second == key; });
      if (is_both) either.push_back(constant(text));
    }
    return builder_.choice(either);
  }

  // Returns a node for this text only, which is a whole value read from a position.
  Node constant(const std::string& text) {
    std::vector<Node> parts;
    size_t at = 0;
    const Node made = constant_at(text, at);
    return made;
  }
  Node constant_at(const std::string& text, size_t& at) {
    RegularPool& pool = builder_.regulars();
    if (text[at] == '"') {
      const size_t end = text.find('"', at + 1);
      const std::string its = text.substr(at + 1, end - at - 1);
      at = end + 1;
      return builder_.json_string(pool.literal(std::u32string(its.begin(), its.end())));
    }
    if (text[at] == '[') {
      ArrayForm form;
      for (++at; text[at] != ']';) {
        if (text[at] == ',') ++at;
        form.first.push_back({{constant_at(text, at)}});
      }
      ++at;
      form.min = form.max = static_cast<uint32_t>(form.first.size());
      return builder_.array(std::move(form));
    }
    if (text[at] == '{') {
      ObjectForm form;
      for (++at; text[at] != '}';) {
        if (text[at] == ',') ++at;
        const size_t end = text.find('"', at + 1);
        const std::string name = text.substr(at + 1, end - at - 1);
        at = end + 2;
        form.properties.push_back(
            {std::u32string(name.begin(), name.end()), constant_at(text, at), true, {}});
      }
      ++at;
      return builder_.object(std::move(form));
    }
    const size_t end = std::min(text.find_first_of(",]}", at), text.size());
    const std::string its = text.substr(at, end - at);
    at = end;
    if (its == "1" || its == "1.0") return plain({{"1", "1"}, {"1.0", "1"}}).form;
    return builder_.literal(its);
  }

  // Requires that one item, or at most one, is a value of the first place.
  void contain(ArrayForm& form, std::vector<Both<Node, Values>>& places) {
    const Both<Node, Values> what =
        places[static_cast<size_t>(below(static_cast<int>(places.size())))];
    form.counts.push_back({static_cast<uint32_t>(1 + below(2)), RegularPool::kUnbounded});
    const auto ways = [&](const Both<Node, Values>& its) {
      return std::vector<ArrayForm::Item>{{its.form, 0}, {both_of(its, what), 1}};
    };
    contained_ = what.texts;
    for (size_t i = 0; i < form.first.size(); ++i) form.first[i] = ways(places[i]);
    form.rest = ways(places.back());
  }

  void write_arrays(const ArrayForm& form, const std::vector<Both<Node, Values>>& places,
                    const std::array<std::string, 2>& begun, std::vector<std::string>& items,
                    Values& all) {
    const std::set<std::string> different(items.begin(), items.end());
    const bool repeats = different.size() < items.size();
    if (form.unique && repeats) return;
    bool is_long_enough = items.size() >= form.min && (!form.repeated || repeats);
    for (const ArrayForm::Count& count : form.counts) {
      const auto n = std::ranges::count_if(items, [&](const std::string& key) {
        return std::ranges::any_of(contained_, [&](const auto& one) { return one.second == key; });
      });
      is_long_enough &= n >= count.min;
    }
    if (is_long_enough) all[begun[0] + "]"] = begun[1] + "]";
    too_many |= all.size() > kMaxTexts;
    if (items.size() >= form.max || too_many) return;
    for (const auto& [text, key] : places[std::min(items.size(), places.size() - 1)].texts) {
      const std::string comma = items.empty() ? "" : ",";
      items.push_back(key);
      write_arrays(form, places, {begun[0] + comma + text, begun[1] + comma + key}, items, all);
      items.pop_back();
    }
  }

  Builder builder_;
  std::mt19937 random_;
  Values contained_;
};

std::shared_ptr<const VocabularyTrie> small_vocabulary() {
  std::vector<std::string> tokens;
  for (const char c : std::string_view("ab\"[]{},:\\x12.0nul")) tokens.emplace_back(1, c);
  for (const std::string_view token :
       {"aa", "ab",    "ba",       "abab", "\"a",  "a\"", "\":",   "\",\"", "{\"",
        "},", "\"}",   "1,",       "1.0",  "},{",  "],[", "null,", "\":1",  "[\"",
        "]]", "ab\":", "\"a\":\"", "b\"]", ",\"a", "aaa", "\"\"",  ",a",    "b}"}) {
    tokens.emplace_back(token);
  }
  return std::make_shared<VocabularyTrie>(std::move(tokens));
}

bool begins_some(const Texts& texts, const std::string& prefix) {
  const auto found = texts.lower_bound(prefix);
  return found != texts.end() && found->starts_with(prefix);
}

// Follows texts of one grammar. Returns the number of compared (state, token) pairs.
size_t walk(const Both<Node>& both, Builder& builder, uint32_t seed) {
  auto grammar = builder.finish(both.form);
  EXPECT_EQ(grammar.has_value(), !both.texts.empty()) << seed;
  if (!grammar || both.texts.empty()) return 0;
  const auto compiled = CompiledGrammar::make(*grammar, small_vocabulary());
  const VocabularyTrie& vocabulary = compiled->vocabulary();
  std::mt19937 random(seed);
  TokenBitmask mask(vocabulary.n_vocab());
  size_t n_pairs = 0;
  for (int run = 0; run < 6; ++run) {
    GrammarMatcher matcher = compiled->start();
    for (std::string text;;) {
      EXPECT_TRUE(matcher.mask(mask));
      EXPECT_EQ(*matcher.is_complete(), both.texts.contains(text)) << seed << ": " << text;
      const auto forced = matcher.forced_bytes(20);
      EXPECT_TRUE(both.texts.contains(text) ? forced->empty()
                                            : begins_some(both.texts, text + *forced));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocabulary.n_vocab(); ++id, ++n_pairs) {
        const bool bit = mask.allows(id);
        const bool possible = begins_some(both.texts, text + vocabulary.bytes(id));
        // The simple matcher writes no escapes.
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

// Tests grammars until enough (state, token) pairs are compared. one(seed) returns the number of
// pairs, or 0 if its grammar has too many texts. KVIK_ORACLE_PAIRS=10000000 gives a longer run.
template <class One>
void walk_enough(One&& one) {
  const char* wanted = std::getenv("KVIK_ORACLE_PAIRS");
  const size_t n_wanted = wanted ? std::strtoull(wanted, nullptr, 10) : 1'000'000;
  size_t n_pairs = 0;
  for (uint32_t seed = 0; n_pairs < n_wanted && !::testing::Test::HasFailure(); ++seed) {
    too_many = false;
    n_pairs += one(seed);
  }
  EXPECT_GE(n_pairs, n_wanted);
}

TEST(GrammarOracle, masks_are_those_of_a_matcher_that_has_all_texts_written_down) {
  walk_enough([](uint32_t seed) -> size_t {
    RandomGrammar random(seed);
    const auto both = random.node(3);
    if (too_many || both.texts.size() > kMaxTexts) return 0;
    return walk(both, random.builder(), seed);
  });
}

TEST(GrammarOracle, masks_know_which_values_are_still_unlike_all_others) {
  walk_enough([](uint32_t seed) -> size_t {
    RandomValues random(seed);
    const auto both = random.array(1 + static_cast<int>(seed % 2));
    if (too_many) return 0;
    Texts texts;
    for (const auto& [text, key] : both.texts) texts.insert(text);
    return walk({both.form, texts}, random.builder(), seed);
  });
}

}  // namespace
}  // namespace kvik::constrain
