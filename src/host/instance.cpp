#include "host/instance.h"

#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "host/encoder_instance.h"

namespace kvik {
namespace {

// Returns the format of a model's file; "gguf" for the embedded and for synthetic models, which
// have a GGUF file's metadata and tensors.
std::string format_of(const std::string& spec) {
  std::error_code failed;
  return std::filesystem::is_directory(spec, failed) ? "safetensors" : "gguf";
}

}  // namespace

ModelCard card_of(const LoadedModel& loaded, const ServingOptions& serving) {
  const ModelConfig& config = loaded.model->config();
  return {.id = loaded.id,
          .architecture = config.architecture,
          .created_s = static_cast<uint64_t>(std::time(nullptr)),
          .n_ctx_train = config.n_ctx_train,
          .n_vocab = config.n_vocab,
          .model_dim = config.model_dim,
          .numerics = loaded.model->numerics(),
          .backend = std::string(loaded.backend->name()),
          .chat_template = serving.chat.chat_template.empty()
                               ? valid_utf8(loaded.tokenizer->chat_template())
                               : serving.chat.chat_template,
          .aliases = serving.aliases,
          .weights = {.n_parameters = loaded.n_parameters,
                      .n_bytes = loaded.model->weight_bytes(),
                      .type = name_of(loaded.weight_type),
                      .format = format_of(loaded.spec),
                      .digest = loaded.model->fingerprint()},
          .pooling = config.pooling};
}

Result<std::unique_ptr<ModelInstance>> serve_loaded(LoadedModel loaded,
                                                    const EngineOptions& options,
                                                    const ServingOptions& serving) {
  if (!loaded.model->config().encoder) {
    return Instance::create(std::move(loaded), options, serving);
  }
  return EncoderInstance::create(std::move(loaded), options, serving);
}

Result<std::unique_ptr<Instance>> Instance::create(LoadedModel loaded, EngineOptions options,
                                                   const ServingOptions& serving) {
  std::unique_ptr<Instance> instance(new Instance);
  ModelCard card = card_of(loaded, serving);
  instance->backend_ = std::move(loaded.backend);
  instance->tokenizer_ = std::move(loaded.tokenizer);
  options.kv_type = loaded.kv_type;
  options.n_ctx_max = static_cast<uint32_t>(loaded.n_ctx);
  TRY_ASSIGN(auto engine, Engine::create(std::move(loaded.model), *instance->backend_, options,
                                         instance->clock_, std::move(loaded.draft)));
  const EngineLimits limits = engine->limits();
  const Model& model = engine->model();
  instance->adapters_.emplace(BaseModel{model, *instance->backend_, loaded.spec}, serving.adapters);
  TRY(instance->adapters_->add_named());
  instance->engine_.emplace(std::move(engine));
  TRY(instance->engine_->started());
  card.n_ctx_max = limits.n_ctx_max;
  card.kv_tokens = limits.kv_tokens;
  card.page_tokens = kPageTokens;
  card.kv_type = name_of(options.kv_type);
  ServiceReranker reranker;
  if (const auto& config = model.config().reranker) {
    card.n_labels = 1;
    reranker = {.prompt = config->prompt, .score_weights = model.score_weights()};
  }
  instance->service_.emplace(
      *instance->tokenizer_, *instance->engine_, std::move(card), serving.chat,
      ServiceAdapters{.book = &*instance->adapters_, .by_default = std::move(loaded.adapter)},
      std::move(reranker));
  return instance;
}

}  // namespace kvik
