#include "text/unigram_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/utf8.h"

namespace kvik {
namespace {

// How much worse than the worst token an unknown character is (SentencePiece, kUnkPenalty).
constexpr double kUnknownPenalty = 10;

// Longer text is cut before a blank, so that the memory of the search stays bounded.
constexpr size_t kMaxSearchedBytes = size_t{1} << 20;

// The best way to cut the text up to a place.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  TokenId id = 0;      // its last token,
  uint32_t begin = 0;  // which begins there
};

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
      blanks_(blanks) {
  float lowest = 0;
  for (TokenId id = 0; id < vocabulary_.n_vocab(); ++id) {
    const TokenKind kind = vocabulary_.kinds[id];
    const std::string& text = vocabulary_.texts[id];
    if (kind == TokenKind::kNormal) lowest = std::min(lowest, vocabulary_.scores[id]);
    if (kind == TokenKind::kUserDefined) user_defined_.insert(text, id);
    const bool is_plain =
        kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kUnused;
    if (is_plain) tokens_.insert(text, id);
  }
  unknown_score_ = double{lowest} - kUnknownPenalty;
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
  for (std::string_view rest = normalised; !rest.empty();) {
    const std::string_view near = rest.substr(0, kMaxSearchedBytes);
    const size_t blank = near.size() < rest.size() ? near.rfind(kBlankMark) : 0;
    const size_t n_bytes = blank == 0 || blank == near.npos ? near.size() : blank;
    encode_normalised(rest.substr(0, n_bytes), ids);
    rest.remove_prefix(n_bytes);
  }
}

void UnigramTokenizer::encode_normalised(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  const auto offer = [&](size_t begin, size_t end, TokenId id, double score) {
    const double sum = best[begin].score + score;
    if (sum > best[end].score) best[end] = {sum, id, static_cast<uint32_t>(begin)};
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    const size_t n_bytes = step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
    bool is_known = false;
    tokens_.each_at(text, at, [&](const TokenTrie::Match& match) {
      is_known |= match.n_bytes == n_bytes;
      const bool is_user_defined = vocabulary_.kinds[match.id] == TokenKind::kUserDefined;
      offer(at, at + match.n_bytes, match.id,
            is_user_defined ? 0.0 : double{vocabulary_.scores[match.id]});
    });
    if (!is_known) offer(at, at + n_bytes, *vocabulary_.unknown, unknown_score_);
    at += n_bytes;
  }
  const size_t from = ids.size();
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    const TokenId id = best[end].id;
    const bool is_more_unknown =
        id == *vocabulary_.unknown && ids.size() > from && ids.back() == id;
    if (!is_more_unknown) ids.push_back(id);
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end());
}

std::string UnigramTokenizer::decode(std::string_view token_text) const {
  return blank_marks_to_blanks(token_text);
}

std::string UnigramTokenizer::describe() const {
  return fmt::format("t5 (SentencePiece Unigram), {} tokens", group_digits(n_vocab()));
}

}  // namespace kvik
