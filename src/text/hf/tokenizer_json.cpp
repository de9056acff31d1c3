#include "text/hf/tokenizer_json.h"

#include <utility>

#include "text/hf/json_tokenizer.h"

namespace kvik {

Result<TokenizerConfig> tokenizer_config_of(const Metadata& metadata) {
  TokenizerConfig config;
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
  return config;
}

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config) {
  TRY_ASSIGN(hf::JsonFile file, hf::JsonFile::read(json, config));
  TRY_ASSIGN(auto type, file.model_fields.text("type"));
  return std::make_unique<hf::JsonTokenizer>(std::move(file.vocabulary), std::move(file.parts),
                                             std::move(type).value_or("no type"));
}

}  // namespace kvik
