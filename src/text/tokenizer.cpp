#include "text/tokenizer.h"

#include <fmt/format.h>

#include "text/bpe_tokenizer.h"
#include "text/detokenizer.h"
#include "text/spm_tokenizer.h"

namespace kvik {

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_metadata(const Metadata& metadata) {
  constexpr const char* kModelKey = "tokenizer.ggml.model";
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string(kModelKey));
  const std::string model = named.value_or("");
  if (model == "gpt2") return BpeTokenizer::read(metadata);
  if (model == "llama") return SpmTokenizer::read(metadata);
  if (model.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key '{}' is missing, expected 'gpt2' or 'llama'", kModelKey));
  }
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("metadata key '{}' is '{}', expected 'gpt2' or 'llama'", kModelKey, model));
}

std::string Tokenizer::detokenize(std::span<const TokenId> ids, Special special) const {
  Detokenizer detokenizer(*this, Detokenizer::Position::kStart, special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

}  // namespace kvik
