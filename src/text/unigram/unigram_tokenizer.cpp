#include "text/unigram/unigram_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/bpe/seen_words.h"
#include "text/utf8.h"

namespace kvik {
namespace {

// How much worse than the worst token an unknown character is (SentencePiece, kUnkPenalty).
constexpr double kUnknownPenalty = 10;

// Longer words are cut, so that the memory of the search stays bounded.
constexpr size_t kMaxSearchedBytes = size_t{1} << 20;

// Of the tokens that text may become; user-defined ones always win.
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

}  // namespace

Result<std::unique_ptr<Tokenizer>> UnigramTokenizer::read(const Metadata& metadata) {
  // What llama.cpp assumes of files that do not say.
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
  return std::unique_ptr<Tokenizer>(
      new UnigramTokenizer(std::move(vocabulary), std::move(charsmap), adds_blank.value_or(false),
                           merges.value_or(false) ? Blanks::kMerged : Blanks::kKept));
}

UnigramTokenizer::UnigramTokenizer(Vocabulary vocabulary, Charsmap charsmap, bool adds_blank,
                                   Blanks blanks)
    : VocabularyTokenizer(std::move(vocabulary)),
      charsmap_(std::move(charsmap)),
      adds_blank_(adds_blank),
      blanks_(blanks),
      search_(make_search(vocabulary_)),
      seams_(vocabulary_) {
  std::vector<TokenTrie::Entry> user_defined;
  for (TokenId id = 0; id < n_vocab(); ++id) {
    if (vocabulary_.kinds[id] != TokenKind::kUserDefined) continue;
    user_defined.push_back({vocabulary_.texts[id], id});
  }
  user_defined_ = TokenTrie(std::move(user_defined));
  make_pieces();
}

// Replaces what the file wants replaced, and blanks: runs of them are one, before a word, where
// they are merged; a first one is added where the file wants one.
std::string UnigramTokenizer::normalise(std::string_view text) const {
  std::string out;
  bool is_in_word = false;
  bool wants_first = adds_blank_;
  const auto push = [&](std::string_view bytes) {
    for (const char c : bytes) {
      if (c == ' ') {
        is_in_word = false;
        if (blanks_ == Blanks::kKept) out += kBlankMark;
        continue;
      }
      if (!std::exchange(is_in_word, true)) {
        if (std::exchange(wants_first, false) || blanks_ == Blanks::kMerged) out += kBlankMark;
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

void UnigramTokenizer::encode(std::string_view text, After, std::vector<TokenId>& ids) const {
  const std::string normalised = normalise(text);
  std::vector<UnigramSearch::Best> best;
  std::vector<UnigramSearch::Token> cut;
  const size_t from = ids.size();
  SeenWords seen(normalised, ids);
  const auto encode = [&](std::string_view word) {
    search_.cut(word, best, cut);
    for (const auto& token : cut) ids.push_back(token.id);
  };
  seams_.each_part(normalised, [&](std::string_view part) {
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

std::string UnigramTokenizer::describe() const {
  return fmt::format("t5 (SentencePiece Unigram), {} tokens", group_digits(n_vocab()));
}

}  // namespace kvik
