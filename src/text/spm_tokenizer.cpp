#include "text/spm_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/utf8.h"

namespace kvik {

// The joining of one text. A list of symbols, and a heap of neighbours that would make a token.
class SpmTokenizer::Joiner {
 public:
  Joiner(const SpmTokenizer& tokenizer, std::string_view text);
  void join();
  void append_ids(std::vector<TokenId>& ids) const;

 private:
  struct Symbol {
    uint32_t begin;
    uint32_t n_bytes;  // 0: joined into the one before it
    uint32_t prev;     // of the first: itself
    uint32_t next;     // of the last: one past the end
  };
  struct Candidate {
    float score;
    uint32_t left;
    uint32_t n_bytes;  // of both when they were found: if either has grown since, this is void
  };
  // The top of a std heap: highest score first, then leftmost.
  static bool comes_later(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }

  bool find_candidate(uint32_t left);
  void push_candidate(uint32_t left);

  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

SpmTokenizer::Joiner::Joiner(const SpmTokenizer& tokenizer, std::string_view text)
    : tokenizer_(tokenizer), text_(text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    const uint32_t n_bytes = step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
    const auto i = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({static_cast<uint32_t>(at), n_bytes, i == 0 ? 0 : i - 1, i + 1});
    at += n_bytes;
  }
}

// Appends the pair that begins with `left` to the heap's storage, where it makes a token.
bool SpmTokenizer::Joiner::find_candidate(uint32_t left) {
  const Symbol& symbol = symbols_[left];
  if (symbol.next == symbols_.size()) return false;
  const uint32_t n_bytes = symbol.n_bytes + symbols_[symbol.next].n_bytes;
  if (n_bytes > tokenizer_.max_token_bytes_) return false;
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  const std::optional<TokenId> id = vocabulary.find_plain(text_.substr(symbol.begin, n_bytes));
  if (!id) return false;
  heap_.push_back({vocabulary.scores[*id], left, n_bytes});
  return true;
}

void SpmTokenizer::Joiner::push_candidate(uint32_t left) {
  if (find_candidate(left)) std::push_heap(heap_.begin(), heap_.end(), comes_later);
}

void SpmTokenizer::Joiner::join() {
  const auto n = static_cast<uint32_t>(symbols_.size());
  for (uint32_t i = 0; i + 1 < n; ++i) find_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), comes_later);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[best.left];
    if (left.n_bytes == 0 || left.next == n) continue;
    Symbol& right = symbols_[left.next];
    if (left.n_bytes + right.n_bytes != best.n_bytes) continue;

    left.n_bytes = best.n_bytes;
    left.next = right.next;
    right.n_bytes = 0;
    if (left.next < n) symbols_[left.next].prev = best.left;
    if (best.left > 0) push_candidate(left.prev);
    push_candidate(best.left);
  }
}

void SpmTokenizer::Joiner::append_ids(std::vector<TokenId>& ids) const {
  for (uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) {
    const std::string_view text = text_.substr(symbols_[i].begin, symbols_[i].n_bytes);
    if (const std::optional<TokenId> id = tokenizer_.vocabulary_.find_plain(text)) {
      ids.push_back(*id);
    } else {
      tokenizer_.encode_as_bytes(text, ids);
    }
  }
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::read(const Metadata& metadata) {
  // What llama.cpp assumes of files that do not say.
  const VocabularyDefaults defaults = {.bos = 1, .eos = 2, .unknown = 0, .adds_bos = true};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(const auto adds_blank, metadata.get_bool("tokenizer.ggml.add_space_prefix"));
  std::unique_ptr<SpmTokenizer> tokenizer(
      new SpmTokenizer(std::move(vocabulary), adds_blank.value_or(true)));
  TRY(tokenizer->find_byte_tokens());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, bool adds_blank)
    : VocabularyTokenizer(std::move(vocabulary)), adds_blank_(adds_blank) {
  for (const std::string& text : vocabulary_.texts) {
    max_token_bytes_ = std::max(max_token_bytes_, text.size());
  }
  make_pieces();
}

Result<void> SpmTokenizer::find_byte_tokens() {
  std::array<TokenId, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = fmt::format("<0x{:02X}>", byte);
    const std::optional<TokenId> id = vocabulary_.find(text);
    if (id) {
      ids[byte] = *id;
    } else if (vocabulary_.unknown) {
      return {};  // all or none: half a character's bytes would be noise
    } else {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("metadata key 'tokenizer.ggml.tokens' has no '{}', expected it, or an "
                      "unknown token",
                      text));
    }
  }
  byte_tokens_ = ids;
  return {};
}

void SpmTokenizer::encode(std::string_view text, After after, std::vector<TokenId>& ids) const {
  std::string marked;
  if (adds_blank_ && after == After::kBoundary) marked = kBlankMark;
  marked += blanks_to_blank_marks(text);
  Joiner joiner(*this, marked);
  joiner.join();
  joiner.append_ids(ids);
}

void SpmTokenizer::encode_as_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  if (!byte_tokens_) {
    ids.push_back(*vocabulary_.unknown);
    return;
  }
  for (const char byte : character) ids.push_back((*byte_tokens_)[static_cast<uint8_t>(byte)]);
}

std::string SpmTokenizer::decode(std::string_view token_text) const {
  return blank_marks_to_blanks(token_text);
}

std::string SpmTokenizer::describe() const {
  return fmt::format("llama (SentencePiece), {} tokens{}", group_digits(n_vocab()),
                     byte_tokens_ ? " with byte fallback" : "");
}

}  // namespace kvik
