#include "host/encoder_instance.h"

#include <algorithm>
#include <utility>

namespace kvik {

EncoderOptions encoder_options(const EngineOptions& options) {
  return {.n_ctx_max = options.n_ctx_max,
          .max_step_tokens = options.max_step_tokens,
          .max_running = options.max_running,
          .max_queue = options.max_queue,
          .n_tenants = static_cast<uint32_t>(std::max<size_t>(options.tenants.size(), 1))};
}

Result<std::unique_ptr<EncoderInstance>> EncoderInstance::create(LoadedModel loaded,
                                                                 const EngineOptions& options,
                                                                 const ServingOptions& serving) {
  if (!serving.adapters.named.empty()) {
    return fail(ErrorCode::kUnsupported,
                "adapters are for models that generate text; this one is an encoder");
  }
  std::unique_ptr<EncoderInstance> instance(new EncoderInstance);
  ModelCard card = card_of(loaded, serving);
  const EncoderConfig encoder = *loaded.model->config().encoder;
  const EncoderWeights& weights = loaded.model->encoder();  // stay where they are
  const PoolingStream::Dense dense{weights.dense_out, weights.dense_back};
  instance->backend_ = std::move(loaded.backend);
  instance->tokenizer_ = std::move(loaded.tokenizer);
  EncoderOptions own = encoder_options(options);
  own.n_ctx_max = static_cast<uint32_t>(loaded.n_ctx);
  TRY_ASSIGN(instance->encoder_, EncoderThread::start(std::move(loaded.model), *instance->backend_,
                                                      own, instance->clock_));
  card.n_ctx_max = instance->encoder_->limits().n_ctx_max;
  card.generates = false;
  card.n_labels = encoder.n_labels;
  instance->service_.emplace(*instance->tokenizer_, *instance->encoder_, std::move(card),
                             encoder.n_token_types > 1 ? EncoderService::PairForm::kOneEnd
                                                       : EncoderService::PairForm::kTwoEnds,
                             dense);
  return instance;
}

}  // namespace kvik
