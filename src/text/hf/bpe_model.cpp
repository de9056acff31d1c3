#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <utility>

#include "base/utf8.h"
#include "text/bpe/bpe_merges.h"
#include "text/hf/word_model.h"

namespace kvik::hf {
namespace {

struct Affixes {
  std::string prefix;  // prefix of tokens that do not begin a word
  std::string suffix;  // suffix of the token that ends a word
};

struct Flags {
  bool fuses_unknown;
  bool takes_whole_words_first;
};

class BpeModel final : public WordModel {
 public:
  BpeModel(TokenTexts vocabulary, Affixes affixes, const Flags& flags)
      : affixes_(std::move(affixes)), flags_(flags) {
    vocabulary_ = std::move(vocabulary);
  }

  Result<void> add_merges(const std::vector<Merge>& merges);
  Result<void> read_unknown(const JsonObject& model);

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    if (flags_.takes_whole_words_first) {
      if (const auto id = vocabulary_.find(word)) {
        ids.push_back(*id);
        return;
      }
    }
    const size_t from = ids.size();
    append_characters(word, ids);
    static thread_local BpeMerges::Scratch scratch;
    joins_.join(ids, from, scratch);
  }

 private:
  void append_characters(std::string_view word, std::vector<TokenId>& ids) const;
  std::optional<TokenId> find_character(std::string_view word, size_t at, size_t n_bytes) const;

  const Affixes affixes_;
  const Flags flags_;
  BpeMerges joins_;
};

std::optional<TokenId> BpeModel::find_character(std::string_view word, size_t at,
                                                size_t n_bytes) const {
  const std::string_view character = word.substr(at, n_bytes);
  const bool has_prefix = at > 0 && !affixes_.prefix.empty();
  const bool has_suffix = at + n_bytes == word.size() && !affixes_.suffix.empty();
  if (!has_prefix && !has_suffix) return vocabulary_.find(character);
  std::string text = has_prefix ? affixes_.prefix : "";
  text += character;
  if (has_suffix) text += affixes_.suffix;
  return vocabulary_.find(text);
}

void BpeModel::append_characters(std::string_view word, std::vector<TokenId>& ids) const {
  bool after_unknown = false;
  for (size_t at = 0; at < word.size();) {
    const size_t n_bytes = n_character_bytes(word, at);
    const auto id = find_character(word, at, n_bytes);
    const bool is_unknown = !id && !byte_tokens_;
    if (id) {
      ids.push_back(*id);
    } else if (!is_unknown) {
      append_bytes(word.substr(at, n_bytes), ids);
    } else if (unknown_ && !(after_unknown && flags_.fuses_unknown)) {
      ids.push_back(*unknown_);
    }
    after_unknown = is_unknown;
    at += n_bytes;
  }
}

Result<void> BpeModel::read_unknown(const JsonObject& model) {
  TRY_ASSIGN(unknown_, find_named(model, "unk_token", vocabulary_));
  return read_byte_tokens(model);
}

Result<void> BpeModel::add_merges(const std::vector<Merge>& merges) {
  joins_.reserve(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    std::string joined(left);
    joined += right.starts_with(affixes_.prefix) ? right.substr(affixes_.prefix.size()) : right;
    for (const std::string_view part : {left, right, std::string_view(joined)}) {
      if (vocabulary_.find(part)) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tokenizer.json: 'model.merges' has '{} {}' as number {}, expected "
                              "tokens, but '{}' is not a token",
                              left, right, rank, part));
    }
    joins_.insert(*vocabulary_.find(left), *vocabulary_.find(right),
                  {rank, *vocabulary_.find(joined)});
  }
  return {};
}

}  // namespace

Result<std::vector<Merge>> read_merges(const JsonObject& model) {
  std::vector<Merge> merges;
  TRY(model.each_of("merges", [&](const auto& value, const auto& path) -> Result<void> {
    const boost::json::string* text = value.if_string();
    const boost::json::array* pair = value.if_array();
    if (pair && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string()) {
      merges.push_back({(*pair)[0].get_string(), (*pair)[1].get_string()});
    } else if (const size_t blank = text ? text->find(' ') : 0; text && blank != text->npos) {
      const std::string_view all = *text;
      merges.push_back({all.substr(0, blank), all.substr(blank + 1)});
    } else {
      return unexpected_value(path, &value, "two tokens separated by a space");
    }
    return {};
  }));
  return merges;
}

Result<std::unique_ptr<WordModel>> read_bpe(const JsonObject& model) {
  TRY_ASSIGN(TokenTexts vocabulary, read_vocabulary_object(model));
  TRY_ASSIGN(auto prefix, model.text("continuing_subword_prefix"));
  TRY_ASSIGN(auto suffix, model.text("end_of_word_suffix"));
  TRY_ASSIGN(const bool fuses, model.flag("fuse_unk", false));
  TRY_ASSIGN(const bool whole_words, model.flag("ignore_merges", false));
  Affixes affixes = {std::move(prefix).value_or(""), std::move(suffix).value_or("")};
  auto bpe = std::make_unique<BpeModel>(std::move(vocabulary), std::move(affixes),
                                        Flags{fuses, whole_words});
  TRY_ASSIGN(const std::vector<Merge> merges, read_merges(model));
  TRY(bpe->add_merges(merges));
  TRY(bpe->read_unknown(model));
  return std::unique_ptr<WordModel>(std::move(bpe));
}

}  // namespace kvik::hf
