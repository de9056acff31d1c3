#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/bpe/split_points.h"
#include "text/bpe/word_cache.h"
#include "text/unigram/charsmap.h"
#include "text/unigram/unigram_search.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {
namespace {

// The score of an unknown character is this much below the lowest score of a token (SentencePiece,
// kUnkPenalty).
constexpr double kUnknownPenalty = 10;

// Longer words are split, so that the memory of the search stays bounded.
constexpr size_t kMaxSearchedBytes = size_t{1} << 20;

// Returns the search over the tokens that plain text may become. User-defined tokens always win.
UnigramSearch make_search(const Vocabulary& vocabulary) {
  float lowest = 0;
  std::vector<TokenTrie::Entry> tokens;
  std::vector<double> scores(vocabulary.n_vocab());
  for (TokenId id = 0; id < vocabulary.n_vocab(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    if (kind == TokenKind::kNormal) lowest = std::min(lowest, vocabulary.scores[id]);
    if (kind != TokenKind::kUserDefined) scores[id] = double{vocabulary.scores[id]};
    if (vocabulary.is_of_text(id)) tokens.push_back({vocabulary.texts[id], id});
  }
  return UnigramSearch(std::move(tokens), std::move(scores),
                       {*vocabulary.unknown, double{lowest} - kUnknownPenalty});
}

enum class Blanks { kKept, kMerged };  // treatment of runs of spaces

// Normalizes text, replaces spaces by U+2581, and splits the result so that the sum of the tokens'
// scores is highest (Viterbi). Characters without a token become the unknown token, and adjacent
// unknown tokens become one.
class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  // `adds_blank`: whether a space is added before the first word of a text.
  UnigramTokenizer(Vocabulary vocabulary, Charsmap charsmap, bool adds_blank, Blanks blanks)
      : VocabularyTokenizer(std::move(vocabulary)),
        charsmap_(std::move(charsmap)),
        adds_blank_(adds_blank),
        blanks_(blanks),
        search_(make_search(vocabulary_)),
        split_points_(vocabulary_) {
    std::vector<TokenTrie::Entry> user_defined;
    for (TokenId id = 0; id < n_vocab(); ++id) {
      if (vocabulary_.kinds[id] != TokenKind::kUserDefined) continue;
      user_defined.push_back({vocabulary_.texts[id], id});
    }
    user_defined_ = TokenTrie(std::move(user_defined));
    make_pieces();
  }

  bool strips_leading_space() const override { return adds_blank_; }
  std::string describe() const override {
    return fmt::format("t5 (SentencePiece Unigram), {} tokens", group_digits(n_vocab()));
  }

 private:
  // Applies the file's replacements and replaces spaces by space marks. With kMerged each word has
  // one mark before it, and other spaces are dropped. With kKept each space becomes a mark, and one
  // is added before the first word if adds_blank_ is set.
  std::string normalize(std::string_view text) const {
    std::string out;
    bool is_in_word = false;
    bool wants_first = adds_blank_;
    const auto push = [&](std::string_view bytes) {
      for (const char c : bytes) {
        if (c == ' ') {
          is_in_word = false;
          if (blanks_ == Blanks::kKept) out += kSpaceMark;
          continue;
        }
        if (!std::exchange(is_in_word, true)) {
          if (std::exchange(wants_first, false) || blanks_ == Blanks::kMerged) out += kSpaceMark;
        }
        out += c;
      }
    };
    for (size_t at = 0; at < text.size();) {
      if (const auto token = user_defined_.longest_at(text, at)) {
        push(text.substr(at, token->n_bytes));
        at += token->n_bytes;
      } else if (const auto match = charsmap_.longest_at(text, at)) {
        push(match->replacement);
        at += match->n_bytes;
      } else {
        const Utf8Step step = next_utf8(text, at);
        const bool is_valid = step.kind == Utf8Step::Kind::kValid;
        push(is_valid ? text.substr(at, step.n_bytes) : kReplacementCharacter);
        at += is_valid ? step.n_bytes : 1;
      }
    }
    return out;
  }

  void encode(std::string_view text, After, std::vector<TokenId>& ids) const override {
    const std::string normalized = normalize(text);
    std::vector<UnigramSearch::Best> best;
    std::vector<UnigramSearch::Token> cut;
    const size_t from = ids.size();
    WordCache seen(normalized, ids);
    const auto encode = [&](std::string_view word) {
      search_.cut(word, best, cut);
      for (const auto& token : cut) ids.push_back(token.id);
    };
    split_points_.each_part(normalized, [&](std::string_view part) {
      for (; part.size() > kMaxSearchedBytes; part.remove_prefix(kMaxSearchedBytes)) {
        seen.append(part.substr(0, kMaxSearchedBytes), encode);
      }
      seen.append(part, encode);
    });
    const auto are_both_unknown = [&](TokenId a, TokenId b) {
      return a == *vocabulary_.unknown && b == a;
    };
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(from);
    ids.erase(std::unique(first, ids.end(), are_both_unknown), ids.end());
  }

  const Charsmap charsmap_;
  const bool adds_blank_;
  const Blanks blanks_;
  TokenTrie user_defined_;
  const UnigramSearch search_;
  const SplitPoints split_points_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> read_unigram_tokenizer(const Metadata& metadata) {
  // llama.cpp's defaults for files without these keys.
  const VocabularyDefaults defaults = {
      .bos = std::nullopt, .eos = 1, .unknown = 2, .adds_bos = false, .adds_eos = true};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  if (!vocabulary.unknown) {
    return fail(ErrorCode::kCorrupt,
                "metadata key 'tokenizer.ggml.unknown_token_id' is missing, expected since "
                "'tokenizer.ggml.model' is 't5'");
  }
  TRY_ASSIGN(Charsmap charsmap, Charsmap::read(metadata));
  TRY_ASSIGN(const auto adds_blank, metadata.get_bool("tokenizer.ggml.add_space_prefix"));
  TRY_ASSIGN(const auto merges, metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces"));
  return std::make_unique<UnigramTokenizer>(
      std::move(vocabulary), std::move(charsmap), adds_blank.value_or(false),
      merges.value_or(false) ? Blanks::kMerged : Blanks::kKept);
}

}  // namespace kvik
