#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/bpe/split_points.h"
#include "text/bpe/word_cache.h"
#include "text/hf/json_file.h"
#include "text/token_trie.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik::hf {
namespace {

// A tokenizer assembled from the parts of a tokenizer.json.
class JsonTokenizer final : public VocabularyTokenizer {
 public:
  JsonTokenizer(Vocabulary vocabulary, JsonParts parts, std::string model_type)
      : VocabularyTokenizer(std::move(vocabulary)),
        parts_(std::move(parts)),
        model_type_(std::move(model_type)) {
    std::vector<std::string> texts;
    for (const TokenId id : parts_.added_after_normalization) {
      texts.push_back(parts_.normalizer(vocabulary_.texts[id]));
    }
    std::vector<TokenTrie::Entry> entries;
    for (size_t i = 0; i < texts.size(); ++i) {
      entries.push_back({texts[i], parts_.added_after_normalization[i]});
    }
    added_ = TokenTrie(std::move(entries));
    // Adjacent unknown characters may become one unknown token. Splitting between them would make
    // two.
    const bool knows_all = parts_.model->has_byte_tokens() || !parts_.model->unknown();
    if (!parts_.pre_tokenizer && knows_all) split_points_.emplace(vocabulary_);
    make_pieces();
  }

  bool strips_leading_space() const override { return parts_.spelling.strips_leading_space(); }
  std::string describe() const override {
    return fmt::format("tokenizer.json ({}), {} tokens", model_type_, group_digits(n_vocab()));
  }

 private:
  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override {
    if (!parts_.normalizer) return encode_normalized(text, after, ids);
    // Normalizers require valid UTF-8.
    const std::string normalized = parts_.normalizer(each_character(text, append_utf8));
    const std::string_view all = normalized;
    size_t begin = 0;
    for (size_t at = 0; at < all.size();) {
      const auto token = added_.longest_at(all, at);
      if (!token) {
        ++at;
        continue;
      }
      encode_normalized(all.substr(begin, at - begin), after, ids);
      ids.push_back(token->id);
      after = After::kToken;
      begin = at += token->n_bytes;
    }
    encode_normalized(all.substr(begin), after, ids);
  }

  void encode_normalized(std::string_view text, After after, std::vector<TokenId>& ids) const {
    Words words{std::string(text)};
    words.begins_text = after == After::kNothing;
    if (parts_.pre_tokenizer) parts_.pre_tokenizer(words);
    if (split_points_) cut_at_split_points(words);
    WordCache seen(words.text, ids);
    for (const Words::Range& range : words.ranges) {
      if (range.begin == range.end) continue;
      seen.append(words.of(range), [&](std::string_view word) { parts_.model->encode(word, ids); });
    }
  }

  void cut_at_split_points(Words& words) const {
    words.ranges.clear();
    uint32_t begin = 0;
    split_points_->each_part(words.text, [&](std::string_view part) {
      const uint32_t end = begin + static_cast<uint32_t>(part.size());
      words.ranges.push_back({std::exchange(begin, end), end});
    });
  }

  std::string decode(std::string_view token_text) const override {
    return parts_.spelling.spell(token_text);
  }

  const JsonParts parts_;
  const std::string model_type_;
  TokenTrie added_;
  std::optional<SplitPoints> split_points_;  // present only without a pre-tokenizer
};

}  // namespace
}  // namespace kvik::hf

namespace kvik {

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config) {
  TRY_ASSIGN(hf::JsonFile file, hf::JsonFile::read(json, config));
  TRY_ASSIGN(auto type, file.model_fields.text("type"));
  return std::make_unique<hf::JsonTokenizer>(std::move(file.vocabulary), std::move(file.parts),
                                             std::move(type).value_or("no type"));
}

}  // namespace kvik
