#include "text/hf/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/hf/added_tokens.h"

namespace kvik::hf {
namespace {

// Returns the id of a token that is named in tokenizer_config.json, if it exists.
std::optional<TokenId> find_named(const Vocabulary& vocabulary,
                                  const std::optional<std::string>& name) {
  return name ? vocabulary.find(*name) : std::nullopt;
}

void add_config(const TokenizerConfig& config, Vocabulary& vocabulary) {
  if (!vocabulary.bos) vocabulary.bos = find_named(vocabulary, config.bos_token);
  const auto eos = find_named(vocabulary, config.eos_token);
  if (!vocabulary.eos) vocabulary.eos = eos;
  vocabulary.adds_bos = config.adds_bos.value_or(vocabulary.adds_bos) && vocabulary.bos;
  vocabulary.adds_eos = config.adds_eos.value_or(vocabulary.adds_eos) && vocabulary.eos;
  vocabulary.end_tokens = find_end_tokens(vocabulary, {eos ? eos : vocabulary.eos});
  for (const uint64_t id : config.end_ids) {
    if (id < vocabulary.n_vocab() && std::ranges::count(vocabulary.end_tokens, id) == 0) {
      vocabulary.end_tokens.push_back(static_cast<TokenId>(id));
    }
  }
  vocabulary.chat_template = config.chat_template;
}

}  // namespace

Result<JsonFile> JsonFile::read(std::string_view json, const TokenizerConfig& config) {
  TRY_ASSIGN(auto parsed, parse_json_file(json, kTokenizerFile));
  auto value = std::make_unique<const boost::json::value>(std::move(parsed));
  TRY_ASSIGN(const JsonObject file, object_at(*value, ""));
  TRY_ASSIGN(auto normalizer, read_normalizer(file.find("normalizer"), "normalizer"));
  TRY_ASSIGN(auto pre_tokenizer, read_pre_tokenizer(file.find("pre_tokenizer"), "pre_tokenizer"));
  TRY_ASSIGN(const auto fields, file.object("model"));
  if (!fields) return unexpected_value("model", nullptr, "an object");
  TRY_ASSIGN(auto model, read_word_model(*fields));
  TRY_ASSIGN(auto spelling, TokenDecoder::read(file.find("decoder")));
  const bool has_bytes = model->has_byte_tokens() || spelling.has_byte_tokens_decoder();
  const auto byte_tokens = has_bytes ? ByteTokens::kAreBytes : ByteTokens::kAreText;
  TRY_ASSIGN(auto all, join_vocabularies(file, *model, byte_tokens, config.n_vocab));
  TRY(read_frame(file, all.vocabulary));
  add_config(config, all.vocabulary);
  if (!normalizer) all.normalized.clear();
  all.vocabulary.found_after_normalization.insert(all.normalized.begin(), all.normalized.end());
  return JsonFile{.json = std::move(value),
                  .model_fields = *fields,
                  .parts = {.normalizer = std::move(normalizer),
                            .pre_tokenizer = std::move(pre_tokenizer),
                            .model = std::move(model),
                            .spelling = std::move(spelling),
                            .added_after_normalization = std::move(all.normalized)},
                  .vocabulary = std::move(all.vocabulary)};
}

}  // namespace kvik::hf

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

}  // namespace kvik
