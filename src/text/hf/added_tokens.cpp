#include "text/hf/added_tokens.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

namespace kvik::hf {
namespace {

// maximum number of unused ids between used ones
constexpr uint64_t kMaxUnusedIds = uint64_t{1} << 18;

Result<void> set_flags(const JsonObject& token, TokenId id, Vocabulary& vocabulary) {
  TRY_ASSIGN(const bool before, token.flag("lstrip", false));
  TRY_ASSIGN(const bool is_rstrip, token.flag("rstrip", false));
  TRY_ASSIGN(const bool whole_word, token.flag("single_word", false));
  if (before) vocabulary.strips_before.insert(id);
  if (is_rstrip) vocabulary.strips_after.insert(id);
  if (whole_word) vocabulary.whole_words.insert(id);
  return {};
}

Result<void> add(const JsonObject& token, std::optional<uint32_t> n_vocab, AllTokens& all) {
  Vocabulary& vocabulary = all.vocabulary;
  TRY_ASSIGN(const auto number, token.number("id"));
  const uint64_t n_ids = vocabulary.texts.size() + kMaxUnusedIds;
  if (!number || *number >= n_ids) {
    return token.unexpected_value("id", fmt::format("an id below {}", n_ids));
  }
  const auto id = static_cast<TokenId>(*number);
  TRY_ASSIGN(const std::string content, token.required_text("content"));
  TRY_ASSIGN(const bool is_special, token.flag("special", false));
  if (n_vocab && id >= *n_vocab) return {};
  if (id >= vocabulary.texts.size()) {
    vocabulary.texts.resize(id + 1);
    vocabulary.kinds.resize(id + 1, TokenKind::kUnused);
  }
  std::string& text = vocabulary.texts[id];
  if (!text.empty() && text != content) {
    return token.unexpected_value("id", fmt::format("an id of its own, but '{}' has it too", text));
  }
  if (text.empty() && !content.empty()) {
    text = content;
    if (const auto twin = vocabulary.index.insert(vocabulary.texts, id)) {
      return token.unexpected_value(
          "content", fmt::format("a text of its own, but token {} has it too", *twin));
    }
  }
  vocabulary.kinds[id] = is_special ? TokenKind::kControl : TokenKind::kUserDefined;
  const bool is_normalized = token.flag("normalized", true).value_or(false);
  if (is_normalized && !is_special) all.normalized.push_back(id);
  return set_flags(token, id, vocabulary);
}

// Returns the token id in `value`; std::nullopt if there is no such token.
std::optional<TokenId> token_of(const boost::json::value& value, const Vocabulary& vocabulary) {
  const int64_t* id = value.if_int64();
  const bool is_one = id && *id >= 0 && std::cmp_less(*id, vocabulary.texts.size());
  return is_one ? std::optional(static_cast<TokenId>(*id)) : std::nullopt;
}

// Returns the first id of the special token that a template names.
Result<TokenId> special_of(const JsonObject& processor, const std::string& name,
                           const Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto specials, processor.object("special_tokens"));
  const auto* value = specials ? specials->find(name) : nullptr;
  if (!value) {
    return unexpected_value(processor.path_of("special_tokens"), nullptr,
                            fmt::format("the special token '{}'", name));
  }
  TRY_ASSIGN(const JsonObject special, object_at(*value, specials->path_of(name)));
  TRY_ASSIGN(const auto* ids, special.list("ids"));
  const auto id = ids && ids->size() == 1 ? token_of((*ids)[0], vocabulary) : std::nullopt;
  if (id) return *id;
  return special.unexpected_value("ids",
                                  fmt::format("one token below {}", vocabulary.texts.size()));
}

// Reads the template of a TemplateProcessing: [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id":
// "A"}}, …].
Result<void> read_template(const JsonObject& processor, Vocabulary& vocabulary) {
  bool is_after_text = false;
  const auto read_part = [&](const auto& value, const auto& path) -> Result<void> {
    TRY_ASSIGN(const JsonObject part, object_at(value, path));
    TRY_ASSIGN(const auto special, part.object("SpecialToken"));
    if (!special) {
      is_after_text = true;
      return {};
    }
    TRY_ASSIGN(const std::string name, special->required_text("id"));
    TRY_ASSIGN(const TokenId id, special_of(processor, name, vocabulary));
    bool& adds = is_after_text ? vocabulary.adds_eos : vocabulary.adds_bos;
    if (std::exchange(adds, true)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tokenizer.json: '{}' puts more than one token {} a text, expected "
                              "at most one",
                              processor.path_of("single"), is_after_text ? "after" : "before"));
    }
    (is_after_text ? vocabulary.eos : vocabulary.bos) = id;
    return {};
  };
  return processor.find("single") ? processor.each_of("single", read_part) : Result<void>();
}

// Reads a token and its id: ["[CLS]", 101].
Result<TokenId> read_pair(const JsonObject& processor, const char* key,
                          const Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto* pair, processor.list(key));
  const auto id = pair && pair->size() == 2 ? token_of((*pair)[1], vocabulary) : std::nullopt;
  if (id) return *id;
  return processor.unexpected_value(
      key, fmt::format("a text and a token below {}", vocabulary.texts.size()));
}

Result<void> read_processor(const JsonObject& processor, Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::string type, processor.required_text("type"));
  if (type == "ByteLevel") return {};  // only affects offsets
  if (type == "TemplateProcessing") return read_template(processor, vocabulary);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    TRY_ASSIGN(vocabulary.bos, read_pair(processor, "cls", vocabulary));
    TRY_ASSIGN(vocabulary.eos, read_pair(processor, "sep", vocabulary));
    vocabulary.adds_bos = vocabulary.adds_eos = true;
    return {};
  }
  if (type != "Sequence") {
    return processor.unsupported("type", type,
                                 "TemplateProcessing, ByteLevel, BertProcessing, "
                                 "RobertaProcessing or Sequence");
  }
  if (!processor.find("processors")) return {};
  return processor.each_of("processors", [&](const auto& value, const auto& path) -> Result<void> {
    TRY_ASSIGN(const JsonObject part, object_at(value, path));
    TRY_ASSIGN(const std::string part_type, part.required_text("type"));
    return part_type == "Sequence" ? Result<void>() : read_processor(part, vocabulary);
  });
}

}  // namespace

Result<AllTokens> join_vocabularies(const JsonObject& file, const WordModel& model,
                                    ByteTokens byte_tokens, std::optional<uint32_t> n_vocab) {
  const size_t n_texts = model.vocabulary().texts.size();
  if (n_vocab && (n_texts > *n_vocab || *n_vocab > n_texts + kMaxUnusedIds)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer.json: 'model.vocab' has {} ids, but the model has {} tokens",
                            n_texts, *n_vocab));
  }
  AllTokens all;
  Vocabulary& vocabulary = all.vocabulary;
  static_cast<TokenTexts&>(vocabulary) = model.vocabulary();
  for (const std::string& text : vocabulary.texts) {
    const bool is_byte = byte_tokens == ByteTokens::kAreBytes && parse_byte_token(text);
    vocabulary.kinds.push_back(text.empty() ? TokenKind::kUnused
                               : is_byte    ? TokenKind::kByte
                                            : TokenKind::kNormal);
  }
  if (file.find("added_tokens")) {
    TRY(file.each_of("added_tokens", [&](const auto& value, const auto& path) -> Result<void> {
      TRY_ASSIGN(const JsonObject token, object_at(value, path));
      return add(token, n_vocab, all);
    }));
  }
  if (vocabulary.texts.empty()) {
    return unexpected_value("model.vocab", nullptr, "at least one token");
  }
  if (n_vocab) {
    vocabulary.texts.resize(*n_vocab);
    vocabulary.kinds.resize(*n_vocab, TokenKind::kUnused);
  }
  vocabulary.unknown = model.unknown();
  vocabulary.scores.assign(vocabulary.texts.size(), 0.0f);
  return all;
}

Result<void> read_frame(const JsonObject& file, Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto processor, file.object("post_processor"));
  return processor ? read_processor(*processor, vocabulary) : Result<void>();
}

}  // namespace kvik::hf
