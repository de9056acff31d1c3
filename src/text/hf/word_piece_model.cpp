#include <algorithm>
#include <utility>

#include "text/hf/word_model.h"
#include "text/token_trie.h"

namespace kvik::hf {
namespace {

// The longest token first, from left to right; those that do not begin a word have a prefix.
class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(ModelVocabulary vocabulary, std::string_view prefix, size_t max_chars,
                 TokenId unknown)
      : max_chars_(max_chars) {
    std::vector<TokenTrie::Entry> first, further;
    for (TokenId id = 0; id < vocabulary.texts.size(); ++id) {
      const std::string_view text = vocabulary.texts[id];
      first.push_back({text, id});
      if (text.starts_with(prefix)) further.push_back({text.substr(prefix.size()), id});
    }
    first_ = TokenTrie(std::move(first));
    further_ = TokenTrie(std::move(further));
    vocabulary_ = std::move(vocabulary);
    unknown_ = unknown;
  }

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    const auto begins_character = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    const auto n_chars = std::count_if(word.begin(), word.end(), begins_character);
    const size_t from = ids.size();
    std::optional<TokenTrie::Match> token;
    for (size_t at = 0; at < word.size() && std::cmp_less_equal(n_chars, max_chars_);
         at += token->n_bytes) {
      token = (at == 0 ? first_ : further_).longest_at(word, at);
      if (!token) break;
      ids.push_back(token->id);
    }
    if (token) return;
    ids.resize(from);
    ids.push_back(*unknown_);
  }

 private:
  const size_t max_chars_;
  TokenTrie first_;
  TokenTrie further_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> read_word_piece(const Fields& model) {
  TRY_ASSIGN(ModelVocabulary vocabulary, read_vocabulary_object(model));
  TRY_ASSIGN(const auto unknown, find_named(model, "unk_token", vocabulary));
  if (!unknown) return unexpected_value(model.path_of("unk_token"), nullptr, "a token");
  TRY_ASSIGN(const auto prefix, model.text("continuing_subword_prefix"));
  TRY_ASSIGN(const auto max_chars, model.number("max_input_chars_per_word"));
  return std::unique_ptr<WordModel>(new WordPieceModel(std::move(vocabulary), prefix.value_or("##"),
                                                       max_chars.value_or(100), *unknown));
}

}  // namespace kvik::hf
