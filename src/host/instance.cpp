#include "host/instance.h"

#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

namespace kvik {
namespace {

// Returns the format of a model's file; "gguf" for the embedded and for synthetic models, which
// have a GGUF file's metadata and tensors.
std::string format_of(const std::string& spec) {
  std::error_code failed;
  return std::filesystem::is_directory(spec, failed) ? "safetensors" : "gguf";
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::create(LoadedModel loaded, EngineOptions options,
                                                   const ServingOptions& serving) {
  std::unique_ptr<Instance> instance(new Instance);
  instance->backend_ = std::move(loaded.backend);
  instance->tokenizer_ = std::move(loaded.tokenizer);
  const ModelConfig config = loaded.model->config();
  options.kv_type = loaded.kv_type;
  options.n_ctx_max = static_cast<uint32_t>(loaded.n_ctx);
  WeightFacts weights{.n_parameters = loaded.n_parameters,
                      .n_bytes = loaded.model->weight_bytes(),
                      .type = name_of(loaded.weight_type),
                      .format = format_of(loaded.spec),
                      .digest = loaded.model->fingerprint()};
  std::string numerics = loaded.model->numerics();
  TRY_ASSIGN(auto engine, Engine::create(std::move(loaded.model), *instance->backend_, options,
                                         instance->clock_, std::move(loaded.draft)));
  const EngineLimits limits = engine->limits();
  instance->adapters_.emplace(BaseModel{engine->model(), *instance->backend_, loaded.spec},
                              serving.adapters);
  TRY(instance->adapters_->add_named());
  instance->engine_.emplace(std::move(engine));
  TRY(instance->engine_->started());
  instance->service_.emplace(
      *instance->tokenizer_, *instance->engine_,
      ModelCard{.id = std::move(loaded.id),
                .architecture = config.architecture,
                .created_s = static_cast<uint64_t>(std::time(nullptr)),
                .n_ctx_max = limits.n_ctx_max,
                .n_ctx_train = config.n_ctx_train,
                .n_vocab = config.n_vocab,
                .model_dim = config.model_dim,
                .kv_tokens = limits.kv_tokens,
                .page_tokens = kPageTokens,
                .kv_type = name_of(options.kv_type),
                .numerics = std::move(numerics),
                .backend = std::string(instance->backend_->name()),
                .chat_template = serving.chat.chat_template.empty()
                                     ? valid_utf8(instance->tokenizer_->chat_template())
                                     : serving.chat.chat_template,
                .aliases = serving.aliases,
                .weights = std::move(weights)},
      serving.chat,
      ServiceAdapters{.book = &*instance->adapters_, .by_default = std::move(loaded.adapter)});
  return instance;
}

}  // namespace kvik
