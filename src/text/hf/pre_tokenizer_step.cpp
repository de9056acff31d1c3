#include "text/hf/pre_tokenizer_step.h"

#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"
#include "text/hf/regex.h"
#include "text/hf/tokenizer_object.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/pre_tokenizer.h"

namespace kvik::hf {
namespace {

using MadeStep = Result<PreTokenizerStep>;
constexpr auto kDelimiter = Parts::Kind::kDelimiter;
constexpr auto kBetween = Parts::Kind::kBetween;

// The meaning of the matches of a regular expression: they are the delimiters, or the text between
// them ("invert").
enum class Delimiters { kMatches, kRest };

MadeStep at_regex(const Pattern& pattern, Behavior behavior, Delimiters delimiters) {
  if (pattern.text.empty()) return nullptr;  // an empty delimiter splits nothing
  TRY_ASSIGN(const Regex regex, Regex::compile(pattern));
  const bool inverts = delimiters == Delimiters::kRest;
  const auto match_kind = inverts ? kBetween : kDelimiter;
  const auto rest_kind = inverts ? kDelimiter : kBetween;
  return [=](Words& words) {
    split(words, behavior, [&](std::string_view word, Parts& parts) {
      size_t done = 0;
      regex.each_match(word, words.regex_reached_limit, [&](const Regex::Match& match) {
        parts.push(match.begin - done, rest_kind);
        parts.push(match.end - match.begin, match_kind);
        done = match.end;
      });
      parts.push(word.size() - done, rest_kind);
    });
  };
}

// Splits at every character that `picks` selects. The characters between two of them form one part.
void split_at_characters(Words& words, bool (*picks)(const Char&), Behavior behavior) {
  split(words, behavior, [&](std::string_view word, Parts& parts) {
    const Chars chars(word);
    size_t n_between = 0;
    for (const Char& c : chars.all()) {
      if (!picks(c)) {
        n_between += c.n_bytes;
        continue;
      }
      parts.push(std::exchange(n_between, 0), kBetween);
      parts.push(c.n_bytes, kDelimiter);
    }
    parts.push(n_between, kBetween);
  });
}

MadeStep at_characters(bool (*picks)(const Char&), Behavior behavior) {
  return [=](Words& words) { split_at_characters(words, picks, behavior); };
}

// Rewrites every word. rewrite_word(word, is_first, out) appends the replacement.
template <class Rewrite>
void rewrite(Words& words, const Rewrite& rewrite_word) {
  std::string text;
  text.reserve(words.text.size() * 2);
  bool is_first = words.begins_text;
  for (Words::Range& range : words.ranges) {
    const size_t begin = text.size();
    rewrite_word(words.of(range), std::exchange(is_first, false), text);
    range = {static_cast<uint32_t>(begin), static_cast<uint32_t>(text.size())};
  }
  words.text = std::move(text);
}

void split_as_gpt2(Words& words) {
  static const PreTokenizer& gpt2 = **find_pre_tokenizer("gpt-2");
  split(words, Behavior::kIsolated, [](std::string_view word, Parts& parts) {
    for (const std::string_view part : gpt2.split(word)) parts.push(part.size(), kBetween);
  });
}

MadeStep byte_level(const JsonObject& fields) {
  TRY_ASSIGN(const bool adds_blank, fields.flag("add_prefix_space", true));
  TRY_ASSIGN(const bool splits, fields.flag("use_regex", true));
  std::vector<std::string> letters;
  for (int byte = 0; byte < 256; ++byte) {
    letters.push_back(byte_to_letter(static_cast<uint8_t>(byte)));
  }
  return [=, letters = std::move(letters)](Words& words) {
    if (adds_blank) {
      rewrite(words, [](std::string_view word, bool, std::string& out) {
        if (!word.starts_with(' ')) out += ' ';
        out += word;
      });
    }
    if (splits) split_as_gpt2(words);
    rewrite(words, [&](std::string_view word, bool, std::string& out) {
      for (const char byte : word) out += letters[static_cast<uint8_t>(byte)];
    });
  };
}

MadeStep metaspace(const JsonObject& fields) {
  TRY_ASSIGN(const auto replacement, fields.text("replacement"));
  TRY_ASSIGN(const auto scheme, fields.text("prepend_scheme"));
  // the default is that of older files
  TRY_ASSIGN(const bool adds_blank, fields.flag("add_prefix_space", true));
  TRY_ASSIGN(const bool splits, fields.flag("split", true));
  enum class Prepend { kNever, kFirst, kAlways };
  Prepend prepend = adds_blank ? Prepend::kAlways : Prepend::kNever;
  if (scheme == "never") prepend = Prepend::kNever;
  if (scheme == "first") prepend = Prepend::kFirst;
  if (scheme == "always") prepend = Prepend::kAlways;
  const std::string mark = replacement.value_or(std::string(kSpaceMark));
  if (mark.empty()) {
    return fields.unexpected_value("replacement", "a character");
  }
  return [=](Words& words) {
    rewrite(words, [&](std::string_view word, bool is_first, std::string& out) {
      const bool prepends = prepend == Prepend::kAlways || (prepend == Prepend::kFirst && is_first);
      if (prepends && !word.starts_with(' ') && !word.starts_with(mark)) out += mark;
      for (const char c : word) c == ' ' ? out += mark : out += c;
    });
    if (!splits) return;
    split(words, Behavior::kMergedWithNext, [&](std::string_view word, Parts& parts) {
      size_t done = 0;
      for (size_t at; (at = word.find(mark, done)) != word.npos; done = at + mark.size()) {
        parts.push(at - done, kBetween);
        parts.push(mark.size(), kDelimiter);
      }
      parts.push(word.size() - done, kBetween);
    });
  };
}

MadeStep sequence_of_steps(const JsonObject& fields) {
  std::vector<PreTokenizerStep> steps;
  TRY(fields.each_of("pretokenizers", [&](const auto& value, const auto& path) -> Result<void> {
    TRY_ASSIGN(auto step, read_pre_tokenizer(&value, path));
    if (step) steps.push_back(std::move(step));
    return {};
  }));
  return [steps = std::move(steps)](Words& words) {
    for (const auto& step : steps) step(words);
  };
}

Result<Behavior> read_behavior(const JsonObject& fields) {
  TRY_ASSIGN(const auto name, fields.text("behavior"));
  if (!name || *name == "Isolated") return Behavior::kIsolated;
  if (*name == "Removed") return Behavior::kRemoved;
  if (*name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (*name == "Contiguous") return Behavior::kContiguous;
  return fields.unexpected_value(
      "behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

}  // namespace

MadeStep read_pre_tokenizer(const boost::json::value* value, const std::string& path) {
  if (!value || value->is_null()) return nullptr;
  TRY_ASSIGN(const JsonObject fields, object_at(*value, path));
  TRY_ASSIGN(const std::string type, fields.required_text("type"));
  if (type == "Sequence") return sequence_of_steps(fields);
  if (type == "Metaspace") return metaspace(fields);
  if (type == "ByteLevel") return byte_level(fields);
  if (type == "WhitespaceSplit") return at_characters(is_blank, Behavior::kRemoved);
  if (type == "Split") {
    TRY_ASSIGN(const Pattern pattern, read_pattern(fields));
    TRY_ASSIGN(const Behavior behavior, read_behavior(fields));
    TRY_ASSIGN(const bool inverts, fields.flag("invert", false));
    return at_regex(pattern, behavior, inverts ? Delimiters::kRest : Delimiters::kMatches);
  }
  if (type == "CharDelimiterSplit") {
    TRY_ASSIGN(const std::string delimiter, fields.required_text("delimiter"));
    return at_regex({delimiter, false}, Behavior::kRemoved, Delimiters::kMatches);
  }
  if (type == "Whitespace") {
    return at_regex({R"(\w+|[^\w\s]+)", true}, Behavior::kRemoved, Delimiters::kRest);
  }
  if (type == "Digits") {
    TRY_ASSIGN(const bool individual, fields.flag("individual_digits", false));
    return at_characters(is_number, individual ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    TRY_ASSIGN(const Behavior behavior, read_behavior(fields));
    return at_characters(is_punctuation, behavior);
  }
  if (type == "BertPreTokenizer") {
    return [](Words& words) {
      split_at_characters(words, is_blank, Behavior::kRemoved);
      split_at_characters(words, is_punctuation, Behavior::kIsolated);
    };
  }
  return fields.unsupported("type", type,
                            "Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, "
                            "Whitespace, WhitespaceSplit, CharDelimiterSplit or BertPreTokenizer");
}

}  // namespace kvik::hf
