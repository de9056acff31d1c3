#include <utility>

#include "text/hf/word_model.h"
#include "text/word_piece/word_piece_search.h"

namespace kvik::hf {
namespace {

// WordPiece. Tokens that do not begin a word have a prefix.
class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(TokenTexts vocabulary, std::string_view prefix,
                 const WordPieceSearch::Limits& limits) {
    WordPieceSearch::Entries first, further;
    for (TokenId id = 0; id < vocabulary.texts.size(); ++id) {
      const std::string_view text = vocabulary.texts[id];
      first.push_back({text, id});
      if (text.starts_with(prefix)) further.push_back({text.substr(prefix.size()), id});
    }
    search_ = WordPieceSearch(std::move(first), std::move(further), limits);
    vocabulary_ = std::move(vocabulary);
    unknown_ = limits.unknown;
  }

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    search_.cut(word, ids);
  }

 private:
  WordPieceSearch search_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> read_word_piece(const JsonObject& model) {
  TRY_ASSIGN(TokenTexts vocabulary, read_vocabulary_object(model));
  TRY_ASSIGN(const auto unknown, find_named(model, "unk_token", vocabulary));
  if (!unknown) return model.unexpected_value("unk_token", "a token");
  TRY_ASSIGN(const auto prefix, model.text("continuing_subword_prefix"));
  TRY_ASSIGN(const auto max_chars, model.number("max_input_chars_per_word"));
  WordPieceSearch::Limits limits{.unknown = *unknown};
  if (max_chars) limits.max_chars = *max_chars;
  return std::unique_ptr<WordModel>(
      new WordPieceModel(std::move(vocabulary), prefix.value_or("##"), limits));
}

}  // namespace kvik::hf
