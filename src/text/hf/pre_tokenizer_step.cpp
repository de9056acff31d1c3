#include "text/hf/pre_tokenizer_step.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"
#include "text/hf/fields.h"
#include "text/hf/regex.h"
#include "text/hf/split_behavior.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/utf8.h"

namespace kvik::hf {
namespace {

using Made = Result<std::unique_ptr<PreTokenizerStep>>;

// Splits every word at delimiters. find_parts(word, begin, parts) appends the parts of `word`,
// which begins there in the text.
template <class FindParts>
void split(Words& words, Behavior behavior, const FindParts& find_parts) {
  std::vector<Words::Range> finer;
  finer.reserve(words.ranges.size());
  std::vector<Part> parts;
  for (const Words::Range& range : words.ranges) {
    parts.clear();
    find_parts(words.of(range), range.begin, parts);
    append_split(parts, behavior, finer);
  }
  words.ranges = std::move(finer);
}

Words::Range range_of(size_t begin, size_t end) {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

// At matches of a regex; inverted, at what lies between them.
class SplitAtRegex final : public PreTokenizerStep {
 public:
  SplitAtRegex(Regex regex, Behavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void apply(Words& words) const override {
    split(words, behavior_, [&](std::string_view word, size_t begin, std::vector<Part>& parts) {
      size_t done = 0;
      for (size_t from = 0; from <= word.size();) {
        if (words.regex_gave_up) break;
        const auto match = regex_.find(word, from, words.regex_gave_up);
        if (!match) break;
        parts.push_back({range_of(begin + done, begin + match->begin), invert_});
        parts.push_back({range_of(begin + match->begin, begin + match->end), !invert_});
        done = from = match->end;
        if (match->begin == match->end) {
          from += from < word.size() ? next_utf8(word, from).n_bytes : 1;
        }
      }
      parts.push_back({range_of(begin + done, begin + word.size()), invert_});
    });
  }

 private:
  const Regex regex_;
  const Behavior behavior_;
  const bool invert_;
};

// At every character that a function picks.
class SplitAtCharacters final : public PreTokenizerStep {
 public:
  using Picks = bool (*)(const Char&);
  SplitAtCharacters(Picks picks, Behavior behavior) : picks_(picks), behavior_(behavior) {}

  void apply(Words& words) const override {
    split(words, behavior_, [&](std::string_view word, size_t begin, std::vector<Part>& parts) {
      const Chars chars(word);
      for (const Char& c : chars.all()) {
        const bool is_delimiter = picks_(c);
        const size_t end = begin + c.n_bytes;
        const bool goes_on = !is_delimiter && !parts.empty() && !parts.back().is_delimiter;
        if (goes_on) {
          parts.back().range.end = static_cast<uint32_t>(end);
        } else {
          parts.push_back({range_of(begin, end), is_delimiter});
        }
        begin = end;
      }
    });
  }

 private:
  const Picks picks_;
  const Behavior behavior_;
};

// Rewrites every word: rewrite(word, is_first, out) appends what it becomes.
template <class Rewrite>
void rewrite(Words& words, const Rewrite& rewrite_word) {
  std::string text;
  text.reserve(words.text.size() * 2);
  bool is_first = words.begins_text;
  for (Words::Range& range : words.ranges) {
    const size_t begin = text.size();
    rewrite_word(words.of(range), std::exchange(is_first, false), text);
    range = range_of(begin, text.size());
  }
  words.text = std::move(text);
}

class ByteLevel final : public PreTokenizerStep {
 public:
  ByteLevel(bool adds_blank, bool splits) : adds_blank_(adds_blank), splits_(splits) {
    for (int byte = 0; byte < 256; ++byte)
      letters_.push_back(byte_to_letter(static_cast<uint8_t>(byte)));
  }

  void apply(Words& words) const override {
    if (adds_blank_) {
      rewrite(words, [](std::string_view word, bool, std::string& out) {
        if (!word.starts_with(' ')) out += ' ';
        out += word;
      });
    }
    if (splits_) split_as_gpt2(words);
    rewrite(words, [&](std::string_view word, bool, std::string& out) {
      for (const char byte : word) out += letters_[static_cast<uint8_t>(byte)];
    });
  }

 private:
  static void split_as_gpt2(Words& words) {
    static const PreTokenizer& gpt2 = **find_pre_tokenizer("gpt-2");
    split(words, Behavior::kIsolated,
          [](std::string_view word, size_t begin, std::vector<Part>& parts) {
            for (const std::string_view part : gpt2.split(word)) {
              parts.push_back({range_of(begin, begin + part.size()), false});
              begin += part.size();
            }
          });
  }

  const bool adds_blank_;
  const bool splits_;
  std::vector<std::string> letters_;
};

class Metaspace final : public PreTokenizerStep {
 public:
  enum class Prepend { kNever, kFirst, kAlways };
  enum class Split { kNo, kYes };
  Metaspace(std::string replacement, Prepend prepend, Split splits)
      : replacement_(std::move(replacement)), prepend_(prepend), splits_(splits) {}

  void apply(Words& words) const override {
    rewrite(words, [&](std::string_view word, bool is_first, std::string& out) {
      const bool prepends =
          prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && is_first);
      if (prepends && !word.starts_with(' ') && !word.starts_with(replacement_))
        out += replacement_;
      for (const char c : word) c == ' ' ? out += replacement_ : out += c;
    });
    if (splits_ == Split::kNo) return;
    split(words, Behavior::kMergedWithNext,
          [&](std::string_view word, size_t begin, std::vector<Part>& parts) {
            size_t done = 0;
            for (size_t at; (at = word.find(replacement_, done)) != word.npos;) {
              parts.push_back({range_of(begin + done, begin + at), false});
              done = at + replacement_.size();
              parts.push_back({range_of(begin + at, begin + done), true});
            }
            parts.push_back({range_of(begin + done, begin + word.size()), false});
          });
  }

 private:
  const std::string replacement_;
  const Prepend prepend_;
  const Split splits_;
};

class Sequence final : public PreTokenizerStep {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizerStep>> steps)
      : steps_(std::move(steps)) {}

  void apply(Words& words) const override {
    for (const auto& step : steps_) step->apply(words);
  }

 private:
  const std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
};

Made at_characters(SplitAtCharacters::Picks picks, Behavior behavior) {
  return std::make_unique<SplitAtCharacters>(picks, behavior);
}

Made at_regex(const Pattern& pattern, Behavior behavior, bool invert) {
  if (pattern.text.empty()) return nullptr;  // no delimiter: nothing is split
  TRY_ASSIGN(Regex regex, Regex::compile(pattern));
  return std::make_unique<SplitAtRegex>(std::move(regex), behavior, invert);
}

Made sequence(const Fields& fields) {
  TRY_ASSIGN(const auto* list, fields.list("pretokenizers"));
  if (!list) return unexpected_value(fields.path_of("pretokenizers"), nullptr, "a list");
  std::vector<std::unique_ptr<PreTokenizerStep>> steps;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", fields.path_of("pretokenizers"), i);
    TRY_ASSIGN(auto step, read_pre_tokenizer(&(*list)[i], path));
    if (step) steps.push_back(std::move(step));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

Made metaspace(const Fields& fields) {
  TRY_ASSIGN(const auto replacement, fields.text("replacement"));
  TRY_ASSIGN(const auto scheme, fields.text("prepend_scheme"));
  TRY_ASSIGN(const bool adds_blank, fields.flag("add_prefix_space", true));  // older files
  TRY_ASSIGN(const bool splits, fields.flag("split", true));
  using Prepend = Metaspace::Prepend;
  Prepend prepend = adds_blank ? Prepend::kAlways : Prepend::kNever;
  if (scheme == "never") prepend = Prepend::kNever;
  if (scheme == "first") prepend = Prepend::kFirst;
  if (scheme == "always") prepend = Prepend::kAlways;
  const std::string mark = replacement.value_or(std::string(kBlankMark));
  if (mark.empty()) {
    return unexpected_value(fields.path_of("replacement"), fields.find("replacement"),
                            "a character");
  }
  return std::make_unique<Metaspace>(mark, prepend,
                                     splits ? Metaspace::Split::kYes : Metaspace::Split::kNo);
}

}  // namespace

Made read_pre_tokenizer(const boost::json::value* value, const std::string& path) {
  if (!value || value->is_null()) return nullptr;
  TRY_ASSIGN(const Fields fields, Fields::of(*value, path));
  TRY_ASSIGN(const std::string type, fields.required_text("type"));
  if (type == "Sequence") return sequence(fields);
  if (type == "Metaspace") return metaspace(fields);
  if (type == "WhitespaceSplit") return at_characters(is_blank, Behavior::kRemoved);
  if (type == "ByteLevel") {
    TRY_ASSIGN(const bool adds_blank, fields.flag("add_prefix_space", true));
    TRY_ASSIGN(const bool splits, fields.flag("use_regex", true));
    return std::make_unique<ByteLevel>(adds_blank, splits);
  }
  if (type == "Split") {
    TRY_ASSIGN(const Pattern pattern, read_pattern(fields));
    TRY_ASSIGN(const Behavior behavior, read_behavior(fields, Behavior::kIsolated));
    TRY_ASSIGN(const bool invert, fields.flag("invert", false));
    return at_regex(pattern, behavior, invert);
  }
  if (type == "CharDelimiterSplit") {
    TRY_ASSIGN(const std::string delimiter, fields.required_text("delimiter"));
    return at_regex({delimiter, false}, Behavior::kRemoved, false);
  }
  if (type == "Whitespace") return at_regex({R"(\w+|[^\w\s]+)", true}, Behavior::kRemoved, true);
  if (type == "Digits") {
    TRY_ASSIGN(const bool individual, fields.flag("individual_digits", false));
    return at_characters(is_number, individual ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    TRY_ASSIGN(const Behavior behavior, read_behavior(fields, Behavior::kIsolated));
    return at_characters(is_punctuation, behavior);
  }
  if (type == "BertPreTokenizer") {
    std::vector<std::unique_ptr<PreTokenizerStep>> steps;
    steps.push_back(std::make_unique<SplitAtCharacters>(is_blank, Behavior::kRemoved));
    steps.push_back(std::make_unique<SplitAtCharacters>(is_punctuation, Behavior::kIsolated));
    return std::make_unique<Sequence>(std::move(steps));
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer.json: '{}' is '{}', expected Sequence, Split, ByteLevel, "
                          "Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                          "CharDelimiterSplit or BertPreTokenizer",
                          fields.path_of("type"), type));
}

}  // namespace kvik::hf
