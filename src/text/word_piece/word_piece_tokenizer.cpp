#include <fmt/format.h>
#include <unicode/uchar.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/bpe/word_cache.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/vocabulary_tokenizer.h"
#include "text/word_piece/bert_text.h"
#include "text/word_piece/word_piece_search.h"

namespace kvik {
namespace {

constexpr size_t kMaxWordChars = 100;  // without the leading space mark

// Normalizes a text and splits it into words: without control characters and accents, in lowercase.
// Each word begins with a space mark, and text() is their concatenation.
class WordSplitter {
 public:
  explicit WordSplitter(size_t n_bytes) { text_.reserve(n_bytes + n_bytes / 2); }

  void push_ascii(char c) {
    if (c >= 'a' && c <= 'z') {
      push_letter(static_cast<char32_t>(c));
    } else if (c >= 'A' && c <= 'Z') {
      push_letter(static_cast<char32_t>(c - 'A' + 'a'));
    } else if (c >= '0' && c <= '9') {
      push_letter(static_cast<char32_t>(c));
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
    } else if (c > ' ' && c != 0x7F) {
      push_alone(static_cast<char32_t>(c));
    }
  }

  void push(char32_t c) {
    if (c == 0xFFFD || is_bert_control(c)) return;
    if (is_blank(make_char(c))) {
      end_word();
      return;
    }
    if (is_bert_cjk(c)) end_word();
    each_bert_base(c, [&](char32_t base) { push_base(base); });
    if (is_bert_cjk(c)) end_word();
  }

  void end_word() {
    if (!is_in_word_) return;
    is_in_word_ = false;
    ends_.push_back(static_cast<uint32_t>(text_.size()));
  }

  const std::string& text() const { return text_; }
  const std::vector<uint32_t>& ends() const { return ends_; }

 private:
  void push_base(char32_t c) {
    const auto small = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
    if (is_punctuation(make_char(c))) {
      push_alone(small);
    } else {
      push_letter(small);
    }
  }

  void push_alone(char32_t c) {
    end_word();
    push_letter(c);
    end_word();
  }

  void push_letter(char32_t c) {
    if (!std::exchange(is_in_word_, true)) text_ += kSpaceMark;
    append_utf8(c, text_);
  }

  std::string text_;
  std::vector<uint32_t> ends_;  // end offsets of the words in text_
  bool is_in_word_ = false;
};

// Uncased WordPiece: words in lowercase without accents, each split into the longest tokens from
// left to right. A word that cannot be split is unknown.
class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  explicit WordPieceTokenizer(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {
    // In GGUF a space mark denotes tokens that begin a word, whereas BERT marks the others with
    // "##".
    WordPieceSearch::Entries first, further;
    for (TokenId id = 0; id < n_vocab(); ++id) {
      const std::string_view text = vocabulary_.texts[id];
      (text.starts_with(kSpaceMark) ? first : further).push_back({text, id});
    }
    search_ = WordPieceSearch(std::move(first), std::move(further),
                              {.max_chars = kMaxWordChars + 1, .unknown = *vocabulary_.unknown});
    make_pieces();
  }

  bool strips_leading_space() const override { return true; }
  std::string describe() const override {
    return fmt::format("bert (WordPiece), {} tokens", group_digits(n_vocab()));
  }

 private:
  void encode(std::string_view text, After, std::vector<TokenId>& ids) const override {
    WordSplitter words(text.size());
    for (size_t at = 0; at < text.size();) {
      if (static_cast<uint8_t>(text[at]) < 0x80) {
        words.push_ascii(text[at++]);
        continue;
      }
      const Utf8Step step = next_utf8(text, at);
      const bool is_valid = step.kind == Utf8Step::Kind::kValid;
      if (is_valid) words.push(step.code_point);
      at += is_valid ? step.n_bytes : 1;
    }
    words.end_word();
    WordCache seen(words.text(), ids);
    size_t begin = 0;
    for (const size_t end : words.ends()) {
      seen.append(std::string_view(words.text()).substr(begin, end - begin),
                  [&](std::string_view word) { search_.cut(word, ids); });
      begin = end;
    }
  }

  WordPieceSearch search_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> read_word_piece_tokenizer(const Metadata& metadata) {
  // The ids of BERT's own vocabulary, which are llama.cpp's defaults. [CLS] and [SEP] are used like
  // BOS and EOS. The file format spells "seperator".
  const VocabularyDefaults defaults = {.bos = 101,
                                       .eos = 102,
                                       .unknown = 100,
                                       .adds_bos = true,
                                       .adds_eos = true,
                                       .bos_key = "tokenizer.ggml.cls_token_id",
                                       .eos_key = "tokenizer.ggml.seperator_token_id"};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  if (!vocabulary.unknown) vocabulary.unknown = vocabulary.find("[UNK]");
  if (!vocabulary.unknown) {
    return fail(ErrorCode::kCorrupt,
                "metadata key 'tokenizer.ggml.unknown_token_id' is missing, expected since "
                "'tokenizer.ggml.model' is 'bert'");
  }
  return std::make_unique<WordPieceTokenizer>(std::move(vocabulary));
}

}  // namespace kvik
