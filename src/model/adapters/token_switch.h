#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/adapted_backend.h"
#include "model/model.h"

namespace kvik {

// Chooses among the adapters of a model's own file by the tokens (ModelConfig::adapter_switch): a
// row has the adapter of the newest control token up to it, so its values depend on no later token
// and its pages are found like those of any model. One thread.
//
// The rows' own adapters are added below those that requests name: its backend is the one to which
// the decoder's own forwards.
class TokenSwitch {
 public:
  // Borrows both. The model must have a switch.
  TokenSwitch(const Model& model, Backend& backend);

  AdaptedBackend& backend() { return backend_; }

  // Adds the next rows of the step, and replaces control tokens among them by their substitutes.
  // `earlier`: all tokens of the sequence before them.
  void add_sequence(std::span<const TokenId> earlier, std::span<TokenId> tokens);

 private:
  using Control = AdapterSwitch::Control;

  const Control* find(TokenId token) const;
  const Adapter* adapter_of(const Control& control) const;

  const Model& model_;
  AdaptedBackend backend_;
  std::vector<Control> controls_;  // in ascending order of their tokens
};

}  // namespace kvik
