#include "text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kvik {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kKindsKey = "tokenizer.ggml.token_type";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";

// The file numbers kinds from 1 in the order of TokenKind (llama.h, llama_token_type).
constexpr std::array<TokenKind, 6> kKinds = {TokenKind::kNormal,  TokenKind::kUnknown,
                                             TokenKind::kControl, TokenKind::kUserDefined,
                                             TokenKind::kUnused,  TokenKind::kByte};

template <class... Values>
std::unexpected<Error> corrupt(fmt::format_string<const Values&...> format,
                               const Values&... values) {
  return fail(ErrorCode::kCorrupt, fmt::vformat(format, fmt::make_format_args(values...)));
}

std::unexpected<Error> wrong_length(std::string_view key, size_t n, size_t n_vocab) {
  return corrupt("metadata key '{}' has {} values, expected one for each of {} tokens", key, n,
                 n_vocab);
}

Result<void> read_texts(const Metadata& metadata, Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::vector<std::string>* texts, metadata.get_strings(kTokensKey));
  if (!texts || texts->empty()) {
    return corrupt("metadata key '{}' is {}, expected the vocabulary", kTokensKey,
                   texts ? "empty" : "missing");
  }
  if (texts->size() > kMaxTokens) {
    return corrupt("metadata key '{}' has {} tokens, expected at most {}", kTokensKey,
                   texts->size(), kMaxTokens);
  }
  vocabulary.texts = *texts;
  vocabulary.index.reserve(texts->size());
  for (TokenId id = 0; id < vocabulary.n_vocab(); ++id) {
    const std::string& text = vocabulary.texts[id];
    if (text.empty()) continue;  // padding by some converters; not a token
    if (const auto twin = vocabulary.index.insert(vocabulary.texts, id)) {
      return corrupt("metadata key '{}' has the token '{}' twice, as {} and {}", kTokensKey, text,
                     *twin, id);
    }
  }
  return {};
}

Result<void> read_kinds(const Metadata& metadata, Vocabulary& vocabulary) {
  vocabulary.kinds.assign(vocabulary.n_vocab(), TokenKind::kNormal);
  TRY_ASSIGN(const std::optional<std::vector<int64_t>> kinds, metadata.get_ints(kKindsKey));
  if (!kinds) return {};
  if (kinds->size() != vocabulary.n_vocab()) {
    return wrong_length(kKindsKey, kinds->size(), vocabulary.n_vocab());
  }
  for (size_t id = 0; id < kinds->size(); ++id) {
    const int64_t kind = (*kinds)[id];
    if (kind < 1 || kind > static_cast<int64_t>(kKinds.size())) {
      return corrupt("metadata key '{}' is {} for token {}, expected 1 to {}", kKindsKey, kind, id,
                     kKinds.size());
    }
    vocabulary.kinds[id] = kKinds[kind - 1];
    const std::string& text = vocabulary.texts[id];
    if (vocabulary.kinds[id] == TokenKind::kByte && !parse_byte_token(text)) {
      return corrupt(
          "metadata key '{}' has the byte token '{}', expected <0x00> to "
          "<0xFF>",
          kTokensKey, text);
    }
  }
  return {};
}

Result<void> read_scores(const Metadata& metadata, Vocabulary& vocabulary) {
  vocabulary.scores.assign(vocabulary.n_vocab(), 0.0f);
  TRY_ASSIGN(const std::vector<double>* scores, metadata.get_floats(kScoresKey));
  if (!scores) return {};
  if (scores->size() != vocabulary.n_vocab()) {
    return wrong_length(kScoresKey, scores->size(), vocabulary.n_vocab());
  }
  for (size_t id = 0; id < scores->size(); ++id) {
    if (std::isnan((*scores)[id])) {
      return corrupt("metadata key '{}' is NaN for token {}, expected a number", kScoresKey, id);
    }
    vocabulary.scores[id] = static_cast<float>((*scores)[id]);
  }
  return {};
}

// Returns the id under `key`. If the key is absent, returns the default if the vocabulary has a
// special token there.
Result<std::optional<TokenId>> read_special(const Metadata& metadata, std::string_view key,
                                            const Vocabulary& vocabulary,
                                            std::optional<TokenId> otherwise) {
  TRY_ASSIGN(const std::optional<uint64_t> id, metadata.get_uint(key));
  if (!id) {
    const bool is_special = otherwise && *otherwise < vocabulary.n_vocab() &&
                            (vocabulary.kinds[*otherwise] == TokenKind::kControl ||
                             vocabulary.kinds[*otherwise] == TokenKind::kUnknown);
    return is_special ? otherwise : std::nullopt;
  }
  if (*id >= vocabulary.n_vocab()) {
    return corrupt("metadata key '{}' is {}, expected a token below {}", key, *id,
                   vocabulary.n_vocab());
  }
  return std::optional(static_cast<TokenId>(*id));
}

// Makes a token a control token. Some files mark control tokens as other kinds, which plain text
// could become.
void mark_as_control(Vocabulary& vocabulary, std::optional<TokenId> id) {
  if (id && vocabulary.kinds[*id] != TokenKind::kUnknown) {
    vocabulary.kinds[*id] = TokenKind::kControl;
  }
}

Result<void> read_special_tokens(const Metadata& metadata, const VocabularyDefaults& defaults,
                                 Vocabulary& vocabulary) {
  const auto special = [&](std::string_view key, std::optional<TokenId> otherwise) {
    return read_special(metadata, key, vocabulary, otherwise);
  };
  TRY_ASSIGN(vocabulary.bos, special(defaults.bos_key, defaults.bos));
  TRY_ASSIGN(vocabulary.eos, special(defaults.eos_key, defaults.eos));
  TRY_ASSIGN(vocabulary.unknown, special("tokenizer.ggml.unknown_token_id", defaults.unknown));
  TRY_ASSIGN(const auto eot, special("tokenizer.ggml.eot_token_id", std::nullopt));
  TRY_ASSIGN(const auto eom, special("tokenizer.ggml.eom_token_id", std::nullopt));
  for (const auto& id : {vocabulary.bos, vocabulary.eos, eot, eom}) mark_as_control(vocabulary, id);

  TRY_ASSIGN(const auto adds_bos, metadata.get_bool("tokenizer.ggml.add_bos_token"));
  TRY_ASSIGN(const auto adds_eos, metadata.get_bool("tokenizer.ggml.add_eos_token"));
  const bool lacks_bos = adds_bos.value_or(false) && !vocabulary.bos;
  if (lacks_bos || (adds_eos.value_or(false) && !vocabulary.eos)) {
    return corrupt(
        "metadata key '{}' is missing, expected since 'tokenizer.ggml.add_{}_token' is true",
        lacks_bos ? defaults.bos_key : defaults.eos_key, lacks_bos ? "bos" : "eos");
  }
  vocabulary.adds_bos = adds_bos.value_or(defaults.adds_bos) && vocabulary.bos;
  vocabulary.adds_eos = adds_eos.value_or(defaults.adds_eos) && vocabulary.eos;
  vocabulary.end_tokens = find_end_tokens(vocabulary, {vocabulary.eos, eot, eom});
  return {};
}

// Returns whether special tokens remove the whitespace after them. GGUF has no key for this; like
// llama.cpp, this goes by the name of the model.
Result<bool> is_phi3(const Metadata& metadata) {
  TRY_ASSIGN(const std::optional<std::string> name, metadata.get_string("general.name"));
  std::string lower = name.value_or("");
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("phi3") != std::string::npos || lower.find("phi-3") != std::string::npos;
}

// Returns the mask token if it removes the whitespace before it. GGUF has no key for this either,
// but these models require it.
Result<std::optional<TokenId>> find_mask(const Metadata& metadata, const Vocabulary& vocabulary) {
  TRY_ASSIGN(const auto pre, metadata.get_string("tokenizer.ggml.pre"));
  TRY_ASSIGN(const auto architecture, metadata.get_string("general.architecture"));
  const std::string name = pre.value_or("") + " " + architecture.value_or("");
  const auto is_any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view part) { return name.find(part) != name.npos; });
  };
  if (is_any({"jina-v2-de", "jina-v2-es", "jina-v2-code", "nomic-bert-moe", "jina-bert-v3"})) {
    return vocabulary.find("<mask>");
  }
  return is_any({"modern-bert"}) ? vocabulary.find("[MASK]") : std::nullopt;
}

}  // namespace

std::expected<TokenTexts::ByteTokens, std::string> TokenTexts::find_byte_tokens() const {
  ByteTokens ids;
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    std::string name = byte_token(static_cast<uint8_t>(byte));
    const auto id = find(name);
    if (!id) return std::unexpected(std::move(name));
    ids[byte] = *id;
  }
  return ids;
}

std::optional<TokenId> Vocabulary::find_plain(std::string_view text) const {
  const std::optional<TokenId> id = find(text);
  return id && is_plain(*id) ? id : std::nullopt;
}

Result<Vocabulary> read_vocabulary(const Metadata& metadata, const VocabularyDefaults& defaults) {
  Vocabulary vocabulary;
  TRY(read_texts(metadata, vocabulary));
  TRY(read_kinds(metadata, vocabulary));
  TRY(read_scores(metadata, vocabulary));
  TRY(read_special_tokens(metadata, defaults, vocabulary));
  TRY_ASSIGN(const bool eat_blanks, is_phi3(metadata));
  for (TokenId id = 0; eat_blanks && id < vocabulary.n_vocab(); ++id) {
    if (vocabulary.kinds[id] == TokenKind::kNormal) continue;
    const std::string& text = vocabulary.texts[id];
    const bool is_plain_end = text == "<s>" || text == "<unk>" || text == "<|endoftext|>";
    if (!is_plain_end) vocabulary.strips_after.insert(id);
  }
  TRY_ASSIGN(const auto mask, find_mask(metadata, vocabulary));
  if (mask) vocabulary.strips_before.insert(*mask);
  TRY_ASSIGN(auto chat_template, metadata.get_string("tokenizer.chat_template"));
  vocabulary.chat_template = std::move(chat_template).value_or("");
  return vocabulary;
}

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* digits_end = text.data() + 5;
  const auto [end, error] = std::from_chars(text.data() + 3, digits_end, byte, 16);
  if (error != std::errc() || end != digits_end) return std::nullopt;
  return byte;
}

std::string group_digits(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

}  // namespace kvik
