#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <utility>

#include "text/hf/word_model.h"
#include "text/unigram/unigram_search.h"

namespace kvik::hf {
namespace {

// The score of an unknown character is this much below the lowest score of a token (SentencePiece,
// kUnkPenalty).
constexpr double kUnknownPenalty = 10;

class UnigramModel final : public WordModel {
 public:
  UnigramModel(TokenTexts vocabulary, std::vector<double> scores, TokenId unknown)
      : WordModel(),
        search_(entries(vocabulary), scores,
                {unknown, *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty}) {
    vocabulary_ = std::move(vocabulary);
    unknown_ = unknown;
  }

  using WordModel::read_byte_tokens;

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    static thread_local std::vector<UnigramSearch::Best> best;
    static thread_local std::vector<UnigramSearch::Token> tokens;
    search_.cut(word, best, tokens);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const size_t end = i + 1 < tokens.size() ? tokens[i + 1].begin : word.size();
      if (tokens[i].id != unknown_) {
        ids.push_back(tokens[i].id);
      } else if (byte_tokens_) {
        append_bytes(word.substr(tokens[i].begin, end - tokens[i].begin), ids);
      } else if (i == 0 || tokens[i - 1].id != unknown_) {
        ids.push_back(*unknown_);
      }
    }
  }

 private:
  static std::vector<TokenTrie::Entry> entries(const TokenTexts& vocabulary) {
    std::vector<TokenTrie::Entry> all;
    for (TokenId id = 0; id < vocabulary.texts.size(); ++id) {
      all.push_back({vocabulary.texts[id], id});
    }
    return all;
  }

  const UnigramSearch search_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> read_unigram(const JsonObject& model) {
  TRY_ASSIGN(const auto* list, model.list("vocab"));
  if (!list || list->empty()) {
    return model.unexpected_value("vocab", "texts with scores");
  }
  TokenTexts vocabulary;
  std::vector<double> scores;
  vocabulary.texts.reserve(list->size());
  vocabulary.index.reserve(list->size());
  for (const boost::json::value& entry : *list) {
    const std::string path = model.path_of("vocab", scores.size());
    const boost::json::array* pair = entry.if_array();
    const bool is_pair =
        pair && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_number();
    if (!is_pair) return unexpected_value(path, &entry, "a text and its score");
    scores.push_back((*pair)[1].to_number<double>());
    if (!std::isfinite(scores.back())) return unexpected_value(path, &entry, "a finite score");
    vocabulary.texts.emplace_back((*pair)[0].get_string());
    const auto id = static_cast<uint32_t>(vocabulary.texts.size() - 1);
    if (!vocabulary.texts.back().empty() && vocabulary.index.insert(vocabulary.texts, id)) {
      return unexpected_value(path, &entry, "a text that no other token has");
    }
  }
  TRY_ASSIGN(const auto unknown, model.number("unk_id"));
  if (!unknown || *unknown >= scores.size()) {
    return model.unexpected_value("unk_id", fmt::format("a token below {}", scores.size()));
  }
  auto unigram = std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores),
                                                static_cast<TokenId>(*unknown));
  TRY(unigram->read_byte_tokens(model));
  return std::unique_ptr<WordModel>(std::move(unigram));
}

}  // namespace kvik::hf
