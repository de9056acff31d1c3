#include "text/hf/added_tokens.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

namespace kvik::hf {
namespace {

constexpr uint64_t kMaxUnusedIds = uint64_t{1} << 18;  // between those that a file uses

struct Added {
  TokenId id;
  std::string text;
  bool is_special;
};

Result<Added> read_added(const Fields& token, size_t n_vocab) {
  TRY_ASSIGN(const auto id, token.number("id"));
  if (!id || *id >= n_vocab + kMaxUnusedIds) {
    return unexpected_value(token.path_of("id"), token.find("id"),
                            fmt::format("an id below {}", n_vocab + kMaxUnusedIds));
  }
  Added added;
  added.id = static_cast<TokenId>(*id);
  TRY_ASSIGN(added.text, token.required_text("content"));
  TRY_ASSIGN(added.is_special, token.flag("special", false));
  return added;
}

Result<void> set_flags(const Fields& token, TokenId id, Vocabulary& vocabulary) {
  TRY_ASSIGN(const bool before, token.flag("lstrip", false));
  TRY_ASSIGN(const bool behind, token.flag("rstrip", false));
  TRY_ASSIGN(const bool whole_word, token.flag("single_word", false));
  if (before) vocabulary.eat_blanks_before.insert(id);
  if (behind) vocabulary.eat_blanks_behind.insert(id);
  if (whole_word) vocabulary.whole_words.insert(id);
  return {};
}

Result<void> add(const Fields& token, std::optional<uint32_t> n_vocab, Vocabulary& vocabulary) {
  TRY_ASSIGN(Added added, read_added(token, vocabulary.texts.size()));
  if (n_vocab && added.id >= *n_vocab) return {};
  if (added.id >= vocabulary.texts.size()) {
    vocabulary.texts.resize(added.id + 1);
    vocabulary.kinds.resize(added.id + 1, TokenKind::kUnused);
  }
  std::string& text = vocabulary.texts[added.id];
  if (!text.empty() && text != added.text) {
    return unexpected_value(token.path_of("id"), token.find("id"),
                            fmt::format("an id of its own, but '{}' has it too", text));
  }
  if (text.empty() && !added.text.empty()) {
    text = added.text;
    if (const auto twin = vocabulary.index.insert(vocabulary.texts, added.id)) {
      return unexpected_value(token.path_of("content"), token.find("content"),
                              fmt::format("a text of its own, but token {} has it too", *twin));
    }
  }
  vocabulary.kinds[added.id] = added.is_special ? TokenKind::kControl : TokenKind::kUserDefined;
  return set_flags(token, added.id, vocabulary);
}

// The first id of the special token that a template names.
Result<TokenId> special_of(const Fields& processor, const std::string& name,
                           const Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto specials, processor.object("special_tokens"));
  const auto* value = specials ? specials->find(name) : nullptr;
  if (!value) {
    return unexpected_value(processor.path_of("special_tokens"), nullptr,
                            fmt::format("the special token '{}'", name));
  }
  TRY_ASSIGN(const Fields special, Fields::of(*value, specials->path_of(name)));
  TRY_ASSIGN(const auto* ids, special.list("ids"));
  const int64_t* id = ids && ids->size() == 1 ? (*ids)[0].if_int64() : nullptr;
  if (!id || *id < 0 || std::cmp_greater_equal(*id, vocabulary.texts.size())) {
    return unexpected_value(special.path_of("ids"), special.find("ids"),
                            fmt::format("one token below {}", vocabulary.texts.size()));
  }
  return static_cast<TokenId>(*id);
}

// [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, …]
Result<void> read_template(const Fields& processor, Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto* single, processor.list("single"));
  if (!single) return {};
  bool is_behind = false;
  for (size_t i = 0; i < single->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", processor.path_of("single"), i);
    TRY_ASSIGN(const Fields part, Fields::of((*single)[i], path));
    TRY_ASSIGN(const auto special, part.object("SpecialToken"));
    if (!special) {
      is_behind = true;
      continue;
    }
    TRY_ASSIGN(const std::string name, special->required_text("id"));
    TRY_ASSIGN(const TokenId id, special_of(processor, name, vocabulary));
    bool& adds = is_behind ? vocabulary.adds_eos : vocabulary.adds_bos;
    if (std::exchange(adds, true)) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("tokenizer.json: '{}' puts more than one token {} a text, expected at "
                      "most one",
                      processor.path_of("single"), is_behind ? "behind" : "before"));
    }
    (is_behind ? vocabulary.eos : vocabulary.bos) = id;
  }
  return {};
}

// ["[CLS]", 101]
Result<TokenId> read_pair(const Fields& processor, const char* key, const Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto* pair, processor.list(key));
  const int64_t* id = pair && pair->size() == 2 ? (*pair)[1].if_int64() : nullptr;
  if (!id || *id < 0 || std::cmp_greater_equal(*id, vocabulary.texts.size())) {
    return unexpected_value(processor.path_of(key), processor.find(key),
                            fmt::format("a text and a token below {}", vocabulary.texts.size()));
  }
  return static_cast<TokenId>(*id);
}

Result<void> read_processor(const Fields& processor, Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::string type, processor.required_text("type"));
  if (type == "ByteLevel") return {};  // of offsets
  if (type == "TemplateProcessing") return read_template(processor, vocabulary);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    TRY_ASSIGN(vocabulary.bos, read_pair(processor, "cls", vocabulary));
    TRY_ASSIGN(vocabulary.eos, read_pair(processor, "sep", vocabulary));
    vocabulary.adds_bos = vocabulary.adds_eos = true;
    return {};
  }
  if (type != "Sequence") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tokenizer.json: '{}' is '{}', expected TemplateProcessing, ByteLevel, "
                            "BertProcessing, RobertaProcessing or Sequence",
                            processor.path_of("type"), type));
  }
  TRY_ASSIGN(const auto* list, processor.list("processors"));
  for (size_t i = 0; list && i < list->size(); ++i) {
    TRY_ASSIGN(const Fields part,
               Fields::of((*list)[i], fmt::format("{}[{}]", processor.path_of("processors"), i)));
    TRY_ASSIGN(const std::string part_type, part.required_text("type"));
    if (part_type != "Sequence") TRY(read_processor(part, vocabulary));
  }
  return {};
}

}  // namespace

Result<Vocabulary> join_vocabularies(const Fields& file, const WordModel& model,
                                     ByteTokens byte_tokens, std::optional<uint32_t> n_vocab) {
  const size_t n_texts = model.vocabulary().texts.size();
  if (n_vocab && (n_texts > *n_vocab || *n_vocab > n_texts + kMaxUnusedIds)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer.json: 'model.vocab' has ids up to {}, but the model has {} "
                            "tokens",
                            n_texts, *n_vocab));
  }
  Vocabulary vocabulary;
  vocabulary.texts = model.vocabulary().texts;
  vocabulary.index = model.vocabulary().index;
  for (const std::string& text : vocabulary.texts) {
    const bool is_byte = byte_tokens == ByteTokens::kAreBytes && parse_byte_token(text);
    vocabulary.kinds.push_back(text.empty() ? TokenKind::kUnused
                               : is_byte    ? TokenKind::kByte
                                            : TokenKind::kNormal);
  }
  TRY_ASSIGN(const auto* added, file.list("added_tokens"));
  for (size_t i = 0; added && i < added->size(); ++i) {
    TRY_ASSIGN(const Fields token, Fields::of((*added)[i], fmt::format("added_tokens[{}]", i)));
    TRY(add(token, n_vocab, vocabulary));
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
  return vocabulary;
}

std::vector<TokenId> take_normalised(const Fields& file, Vocabulary& vocabulary) {
  std::vector<TokenId> taken;
  const auto added = file.list("added_tokens");
  if (!added || !*added) return taken;
  for (const boost::json::value& value : **added) {
    const auto token = Fields::of(value, "added_tokens");
    if (!token) continue;  // join_vocabularies has read them all
    const auto id = token->number("id");
    const auto is_normalised = token->flag("normalized", true);
    const bool is_special = token->flag("special", false).value_or(false);
    if (!id || !*id || is_special || !is_normalised.value_or(false)) continue;
    if (**id >= vocabulary.n_vocab()) continue;  // left out
    taken.push_back(static_cast<TokenId>(**id));
    vocabulary.not_by_name.insert(taken.back());
  }
  return taken;
}

Result<void> read_frame(const Fields& file, Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto processor, file.object("post_processor"));
  return processor ? read_processor(*processor, vocabulary) : Result<void>();
}

}  // namespace kvik::hf
