#include "text/hf/word_model.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

namespace kvik::hf {
namespace {

constexpr uint64_t kMaxUnusedIds = uint64_t{1} << 18;  // between those that a file uses

}  // namespace

std::optional<std::vector<TokenId>> WordModel::find_byte_tokens() const {
  std::vector<TokenId> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

Result<ModelVocabulary> read_vocabulary_object(const Fields& model) {
  const boost::json::value* value = model.find("vocab");
  const boost::json::object* object = value ? value->if_object() : nullptr;
  if (!object) return unexpected_value(model.path_of("vocab"), value, "ids by text");
  ModelVocabulary vocabulary;
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

Result<std::optional<TokenId>> find_named(const Fields& model, std::string_view key,
                                          const ModelVocabulary& vocabulary) {
  TRY_ASSIGN(const auto name, model.text(key));
  if (!name) return std::optional<TokenId>();
  const auto id = vocabulary.find(*name);
  if (!id)
    return unexpected_value(model.path_of(key), model.find(key), "a token of the vocabulary");
  return std::optional(*id);
}

Result<std::unique_ptr<WordModel>> read_word_model(const Fields& model) {
  TRY_ASSIGN(auto type, model.text("type"));
  if (!type) {  // older files name none
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
