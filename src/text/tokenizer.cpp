#include "text/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "text/bpe_tokenizer.h"
#include "text/detokenizer.h"
#include "text/hf/tokenizer_json.h"
#include "text/spm_tokenizer.h"
#include "text/unigram_tokenizer.h"
#include "text/word_piece_tokenizer.h"

namespace kvik {

namespace {

constexpr const char* kJsonKey = "tokenizer.huggingface.json";

// The keys that format/hf/vocabulary_files.h writes.
Result<std::unique_ptr<Tokenizer>> read_json_from(const Metadata& metadata) {
  TokenizerConfig config;
  TRY_ASSIGN(const auto json, metadata.get_string(kJsonKey));
  TRY_ASSIGN(config.bos_token, metadata.get_string("tokenizer.huggingface.bos_token"));
  TRY_ASSIGN(config.eos_token, metadata.get_string("tokenizer.huggingface.eos_token"));
  TRY_ASSIGN(config.adds_bos, metadata.get_bool("tokenizer.ggml.add_bos_token"));
  TRY_ASSIGN(config.adds_eos, metadata.get_bool("tokenizer.ggml.add_eos_token"));
  TRY_ASSIGN(const auto n_vocab, metadata.get_uint("tokenizer.huggingface.n_vocab"));
  if (n_vocab) config.n_vocab = static_cast<uint32_t>(*n_vocab);
  TRY_ASSIGN(const auto ends, metadata.get_ints("tokenizer.huggingface.end_ids"));
  if (ends) config.end_ids.assign(ends->begin(), ends->end());
  TRY_ASSIGN(auto chat_template, metadata.get_string("tokenizer.chat_template"));
  config.chat_template = std::move(chat_template).value_or("");
  return read_tokenizer_json(*json, config);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_metadata(const Metadata& metadata) {
  constexpr const char* kModelKey = "tokenizer.ggml.model";
  constexpr const char* kModels = "'gpt2', 'gemma4', 'llama', 't5' or 'bert'";
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string(kModelKey));
  const std::string model = named.value_or("");
  if (model == "gpt2" || model == "gemma4") return BpeTokenizer::read(metadata);
  if (model == "llama") return SpmTokenizer::read(metadata);
  if (model == "t5") return UnigramTokenizer::read(metadata);
  if (model == "bert") return WordPieceTokenizer::read(metadata);
  if (model.empty() && metadata.contains(kJsonKey)) return read_json_from(metadata);
  if (model.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key '{}' is missing, expected {}, or a tokenizer.json",
                            kModelKey, kModels));
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("metadata key '{}' is '{}', expected {}", kModelKey, model, kModels));
}

std::string Tokenizer::detokenize(std::span<const TokenId> ids, Special special) const {
  Detokenizer detokenizer(*this, Detokenizer::Position::kStart, special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

}  // namespace kvik
