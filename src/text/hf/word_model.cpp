#include "text/hf/word_model.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

namespace kvik::hf {
namespace {

// maximum number of unused ids between used ones
constexpr uint64_t kMaxUnusedIds = uint64_t{1} << 18;

}  // namespace

Result<void> WordModel::read_byte_tokens(const JsonObject& model) {
  TRY_ASSIGN(const bool wants_bytes, model.flag("byte_fallback", false));
  const auto found = vocabulary_.find_byte_tokens();
  if (wants_bytes && found) byte_tokens_ = *found;
  return {};
}

void WordModel::append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) ids.push_back((*byte_tokens_)[static_cast<uint8_t>(byte)]);
}

Result<TokenTexts> read_vocabulary_object(const JsonObject& model) {
  const boost::json::value* value = model.find("vocab");
  const boost::json::object* object = value ? value->if_object() : nullptr;
  if (!object) return model.unexpected_value("vocab", "ids by text");
  TokenTexts vocabulary;
  vocabulary.texts.resize(object->size());
  vocabulary.index.reserve(object->size());
  for (const auto& entry : *object) {
    const std::string path = fmt::format("{}.{}", model.path_of("vocab"), std::string(entry.key()));
    const int64_t* id = entry.value().if_int64();
    const uint64_t n_ids = object->size() + kMaxUnusedIds;
    if (!id || *id < 0 || static_cast<uint64_t>(*id) >= n_ids) {
      return unexpected_value(path, &entry.value(), fmt::format("an id below {}", n_ids));
    }
    if (vocabulary.texts.size() <= static_cast<size_t>(*id)) vocabulary.texts.resize(*id + 1);
    std::string& text = vocabulary.texts[*id];
    if (!text.empty()) {
      return unexpected_value(path, &entry.value(),
                              fmt::format("an id of its own, but '{}' has it too", text));
    }
    text = std::string(entry.key());
    if (!text.empty()) vocabulary.index.insert(vocabulary.texts, static_cast<uint32_t>(*id));
  }
  return vocabulary;
}

Result<std::optional<TokenId>> find_named(const JsonObject& model, std::string_view key,
                                          const TokenTexts& vocabulary) {
  TRY_ASSIGN(const auto name, model.text(key));
  if (!name) return std::optional<TokenId>();
  const auto id = vocabulary.find(*name);
  if (!id) return model.unexpected_value(key, "a token of the vocabulary");
  return std::optional(*id);
}

Result<std::unique_ptr<WordModel>> read_word_model(const JsonObject& model) {
  TRY_ASSIGN(auto type, model.text("type"));
  if (!type) {  // older files have no type
    type = model.find("merges")                      ? "BPE"
           : model.find("continuing_subword_prefix") ? "WordPiece"
                                                     : "Unigram";
  }
  if (*type == "BPE") return read_bpe(model);
  if (*type == "Unigram") return read_unigram(model);
  if (*type == "WordPiece") return read_word_piece(model);
  return model.unsupported("type", *type, "BPE, Unigram or WordPiece");
}

}  // namespace kvik::hf
