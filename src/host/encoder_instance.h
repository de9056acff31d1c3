#pragma once

#include <memory>
#include <optional>

#include "engine/encode/encoder_thread.h"
#include "host/model_instance.h"
#include "service/encode/encoder_service.h"

namespace kvik {

// An encoder being served: backend, tokenizer, the encoder on its own thread and the service.
class EncoderInstance final : public ModelInstance {
 public:
  // Uses the limits of batches, queue and context of `options`. Errors: those of
  // EncoderThread::start(); kUnsupported for named adapters; load_model() has refused any other.
  static Result<std::unique_ptr<EncoderInstance>> create(LoadedModel loaded,
                                                         const EngineOptions& options,
                                                         const ServingOptions& serving);

  ServiceApi& service() override { return *service_; }
  bool drain(Duration at_most) override { return encoder_->drain(at_most); }
  uint64_t probe_progress() override { return encoder_->probe_progress(); }

 private:
  EncoderInstance() = default;

  // Members are in the order in which they borrow from each other.
  SteadyClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<EncoderThread> encoder_;
  std::optional<EncoderService> service_;
};

// Returns the options of an encoder for those of an engine.
EncoderOptions encoder_options(const EngineOptions& options);

}  // namespace kvik
