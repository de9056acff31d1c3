#include "host/load_draft.h"

#include <fmt/format.h>

#include <memory>
#include <span>

#include "base/log.h"
#include "base/quantity.h"
#include "engine/speculate/draft_model.h"
#include "format/quoted.h"
#include "format/source_config.h"

namespace kvik {
namespace {

Result<void> check_vocabulary(const std::string& spec, const Tokenizer& own,
                              const Tokenizer& draft) {
  if (draft.n_vocab() != own.n_vocab()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the draft model {} has {} tokens, expected the model's {}", spec,
                            draft.n_vocab(), own.n_vocab()));
  }
  for (TokenId id = 0; id < own.n_vocab(); ++id) {
    const std::string ours = own.detokenize(std::span(&id, 1), Tokenizer::Special::kShow);
    const std::string theirs = draft.detokenize(std::span(&id, 1), Tokenizer::Special::kShow);
    if (ours == theirs) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("token {} of the draft model {} is {}, expected the model's {}", id,
                            spec, quoted(theirs), quoted(ours)));
  }
  return {};
}

}  // namespace

Result<void> load_draft(const std::string& spec, LoadedModel& loaded, uint32_t max_running) {
  TRY_ASSIGN(const auto source, open_model(spec));
  source->leave_out_mtp_head();
  auto tokenizer = Tokenizer::from_metadata(source->metadata());
  if (!tokenizer) {
    return fail(tokenizer.error().code, fmt::format("{}: {}", spec, tokenizer.error().message));
  }
  TRY(check_vocabulary(spec, *loaded.tokenizer, **tokenizer));
  TRY_ASSIGN(const ModelConfig config, config_of(*source));
  if (config.adapter_switch) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} has adapters that its tokens choose, expected a draft model "
                            "without them",
                            spec));
  }
  TRY_ASSIGN(loaded.draft, Model::load(*source, *loaded.backend, nullptr,
                                       {.n_ctx_max = static_cast<uint32_t>(loaded.n_ctx),
                                        .kv_type = loaded.kv_type}));
  log::info("memory of the draft model {}: weights {} + buffers {}, pages in the KV cache", spec,
            format_bytes(loaded.draft->weight_bytes()),
            format_bytes(DraftModel::buffer_bytes(loaded.draft->config(), loaded.kv_type,
                                                  max_running, *loaded.backend)));
  return {};
}

}  // namespace kvik
