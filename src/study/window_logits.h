#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token_id.h"
#include "engine/engine.h"
#include "host/load_model.h"

namespace kvik {

// Computes the logits of a model for windows of tokens. Each window is computed independently of
// the others. Use from one thread.
class WindowLogits {
 public:
  // Takes the model of `loaded` for windows of up to n_ctx tokens and borrows its backend.
  static Result<std::unique_ptr<WindowLogits>> create(LoadedModel& loaded, uint32_t n_ctx);

  // Receives the logits after the token at a position. They are borrowed for the call.
  using Each = std::function<void(uint32_t position, std::span<const float> logits)>;
  // Computes a window and calls `each` for its positions.
  Result<void> read(std::span<const TokenId> window, const Each& each);

 private:
  WindowLogits() = default;

  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const Adapter> adapter_;  // null if there is none
  uint64_t n_read_ = 0;
};

// Returns the ids of a text as windows of n_ctx tokens. The rest at the end of the text is dropped.
// If the vocabulary adds BOS, it replaces the first token of every window. Error: kInvalidArgument
// if the text is shorter than one window.
Result<std::vector<std::vector<TokenId>>> windows_of(const Tokenizer& tokenizer,
                                                     const std::string& text, uint32_t n_ctx,
                                                     const TokenizeOptions& options);

}  // namespace kvik
