#include "text/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "text/detokenizer.h"
#include "text/hf/tokenizer_json.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {
namespace {

constexpr const char* kJsonKey = "tokenizer.huggingface.json";

Result<std::unique_ptr<Tokenizer>> read_json_from(const Metadata& metadata) {
  TRY_ASSIGN(const auto json, metadata.get_string(kJsonKey));
  TRY_ASSIGN(const TokenizerConfig config, tokenizer_config_of(metadata));
  return read_tokenizer_json(*json, config);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_metadata(const Metadata& metadata) {
  constexpr const char* kModelKey = "tokenizer.ggml.model";
  constexpr const char* kModels = "'gpt2', 'gemma4', 'llama', 't5' or 'bert'";
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string(kModelKey));
  const std::string model = named.value_or("");
  if (model == "gpt2" || model == "gemma4") return read_bpe_tokenizer(metadata);
  if (model == "llama") return read_spm_tokenizer(metadata);
  if (model == "t5") return read_unigram_tokenizer(metadata);
  if (model == "bert") return read_word_piece_tokenizer(metadata);
  if (model.empty() && metadata.contains(kJsonKey)) return read_json_from(metadata);
  if (model.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("there is no tokenizer: a folder needs a tokenizer.json, a GGUF file "
                            "the metadata key '{}' ({})",
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
