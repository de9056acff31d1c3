#include "text/word_piece_tokenizer.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/char_class.h"
#include "text/utf8.h"

namespace kvik {
namespace {

constexpr size_t kMaxWordChars = 100;  // Hugging Face's max_input_chars_per_word: longer is unknown

bool is_other(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_C_MASK) != 0; }

// BERT's list of blocks; each of its characters is a word.
bool is_cjk(char32_t c) {
  constexpr char32_t kBlocks[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [=](const auto& block) { return block[0] <= c && c <= block[1]; });
}

bool is_punctuation(const Char& c) {
  return c.has(kPunctuationTrait) || (c.code_point < 0x80 && c.has(kSymbolTrait));
}

// The words of a text, normalised: no controls, no accents, small letters.
class WordSplitter {
 public:
  void push(char32_t c) {
    const Char kind = make_char(0, c);
    if (kind.char_class == CharClass::kBlank) {
      end_word();
      return;
    }
    if (c == 0 || c == 0xFFFD || is_other(c)) return;
    if (is_cjk(c)) end_word();
    UChar decomposed[32];  // no character's decomposition is longer than 18 (Unicode 15)
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
    const int32_t n = unorm2_getDecomposition(nfd, static_cast<UChar32>(c), decomposed,
                                              std::size(decomposed), &error);
    if (n < 0 || U_FAILURE(error)) {
      push_base(c);
    } else {
      for (int32_t i = 0; i < n;) {
        UChar32 part = 0;
        U16_NEXT(decomposed, i, n, part);
        push_base(static_cast<char32_t>(part));
      }
    }
    if (is_cjk(c)) end_word();
  }

  std::vector<std::u32string> finish() {
    end_word();
    return std::move(words_);
  }

 private:
  void push_base(char32_t c) {
    if (u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK) return;
    const bool is_alone = is_punctuation(make_char(0, c));
    if (is_alone) end_word();
    word_ += static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
    if (is_alone) end_word();
  }

  void end_word() {
    if (!word_.empty()) words_.push_back(std::exchange(word_, {}));
  }

  std::vector<std::u32string> words_;
  std::u32string word_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> WordPieceTokenizer::read(const Metadata& metadata) {
  // The numbers are those of BERT's own vocabulary, which llama.cpp assumes; [CLS] and [SEP] frame
  // a text as BOS and EOS do. The file format spells "seperator".
  const VocabularyDefaults defaults = {.bos = 101,
                                       .eos = 102,
                                       .unknown = 100,
                                       .adds_bos = true,
                                       .adds_eos = true,
                                       .bos_key = "tokenizer.ggml.cls_token_id",
                                       .eos_key = "tokenizer.ggml.seperator_token_id"};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  if (!vocabulary.unknown) {
    return fail(ErrorCode::kCorrupt,
                "metadata key 'tokenizer.ggml.unknown_token_id' is missing, expected since "
                "'tokenizer.ggml.model' is 'bert'");
  }
  return std::unique_ptr<Tokenizer>(new WordPieceTokenizer(std::move(vocabulary)));
}

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary)
    : VocabularyTokenizer(std::move(vocabulary)) {
  for (const std::string& text : vocabulary_.texts) {
    max_token_bytes_ = std::max(max_token_bytes_, text.size());
  }
  make_pieces();
}

void WordPieceTokenizer::encode(std::string_view text, After, std::vector<TokenId>& ids) const {
  WordSplitter words;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    const bool is_valid = step.kind == Utf8Step::Kind::kValid;
    if (is_valid) words.push(step.code_point);
    at += is_valid ? step.n_bytes : 1;
  }
  for (const std::u32string& word : words.finish()) encode_word(word, ids);
}

// The file marks the tokens that begin a word with a blank, where BERT marks the others with "##".
void WordPieceTokenizer::encode_word(std::u32string_view word, std::vector<TokenId>& ids) const {
  const size_t from = ids.size();
  std::string text(kBlankMark);
  for (const char32_t c : word) append_utf8(c, text);
  std::string_view rest = text;
  while (!rest.empty() && word.size() <= kMaxWordChars) {
    std::optional<TokenId> id;
    size_t n_bytes = std::min(rest.size(), max_token_bytes_);
    for (; n_bytes > 0 && !id; n_bytes -= id ? 0 : 1)
      id = vocabulary_.find(rest.substr(0, n_bytes));
    if (!id) break;
    ids.push_back(*id);
    rest.remove_prefix(n_bytes);
  }
  if (rest.empty()) return;
  ids.resize(from);
  ids.push_back(*vocabulary_.unknown);
}

std::string WordPieceTokenizer::decode(std::string_view token_text) const {
  return blank_marks_to_blanks(token_text);
}

std::string WordPieceTokenizer::describe() const {
  return fmt::format("bert (WordPiece), {} tokens", group_digits(n_vocab()));
}

}  // namespace kvik
