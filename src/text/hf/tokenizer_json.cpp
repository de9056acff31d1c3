#include "text/hf/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <utility>

#include "text/end_tokens.h"
#include "text/hf/added_tokens.h"
#include "text/hf/fields.h"
#include "text/hf/json_tokenizer.h"

namespace kvik {
namespace {

constexpr size_t kMaxDepth = 32;

// The id of the token that tokenizer_config.json names, where it is one.
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

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view json,
                                                       const TokenizerConfig& config) {
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(json, error, {}, options);
  if (error) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer.json can not be read: {}, expected JSON", error.message()));
  }
  TRY_ASSIGN(const hf::Fields file, hf::Fields::of(value, ""));
  hf::JsonTokenizer::Parts parts;
  TRY_ASSIGN(parts.normalizer, hf::read_normalizer(file.find("normalizer"), "normalizer"));
  TRY_ASSIGN(parts.pre_tokenizer,
             hf::read_pre_tokenizer(file.find("pre_tokenizer"), "pre_tokenizer"));
  TRY_ASSIGN(const auto model, file.object("model"));
  if (!model) return hf::unexpected_value("model", nullptr, "an object");
  TRY_ASSIGN(parts.model, hf::read_word_model(*model));
  TRY_ASSIGN(const auto type, model->text("type"));
  parts.model_type = type.value_or("no type");
  TRY_ASSIGN(parts.spelling, hf::TokenSpelling::read(file.find("decoder")));
  const bool has_bytes = parts.model->has_byte_tokens() || parts.spelling.knows_byte_tokens();
  const auto byte_tokens = has_bytes ? hf::ByteTokens::kAreBytes : hf::ByteTokens::kAreText;
  TRY_ASSIGN(Vocabulary vocabulary,
             hf::join_vocabularies(file, *parts.model, byte_tokens, config.n_vocab));
  TRY(hf::read_frame(file, vocabulary));
  add_config(config, vocabulary);
  if (parts.normalizer) parts.added_when_normalised = hf::take_normalised(file, vocabulary);
  return std::unique_ptr<Tokenizer>(new hf::JsonTokenizer(std::move(vocabulary), std::move(parts)));
}

}  // namespace kvik
