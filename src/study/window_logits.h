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

// A model that reads windows of tokens, each for itself from its beginning.
class WindowLogits {
 public:
  // Windows of up to n_ctx tokens; the backend of `loaded` is borrowed.
  static Result<std::unique_ptr<WindowLogits>> create(LoadedModel& loaded, uint32_t n_ctx);

  // position → the logits after the token there, borrowed for the call.
  using Each = std::function<void(uint32_t position, std::span<const float> logits)>;
  Result<void> read(std::span<const TokenId> window, const Each& each);

 private:
  WindowLogits() = default;

  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const Adapter> adapter_;  // null: none
  uint64_t n_read_ = 0;
};

// The ids of a text as windows of n_ctx tokens, what is left at its end dropped. Where the
// vocabulary begins texts with a token, every window's first one is replaced by it. Errors:
// kInvalidArgument where the text has not one window.
Result<std::vector<std::vector<TokenId>>> windows_of(const Tokenizer& tokenizer,
                                                     const std::string& text, uint32_t n_ctx,
                                                     const TokenizeOptions& options);

}  // namespace kvik
