#include "model/adapters/token_switch.h"

#include <algorithm>
#include <ranges>

namespace kvik {

TokenSwitch::TokenSwitch(const Model& model, Backend& backend)
    : model_(model), backend_(backend), controls_(model.config().adapter_switch->controls) {
  std::ranges::sort(controls_, {}, &Control::token);
}

// The comparison with the first and the last token decides for nearly all tokens: control tokens
// are neighbors at the end of a vocabulary.
const TokenSwitch::Control* TokenSwitch::find(TokenId token) const {
  if (token < controls_.front().token || token > controls_.back().token) return nullptr;
  const auto found = std::ranges::lower_bound(controls_, token, {}, &Control::token);
  return found->token == token ? &*found : nullptr;
}

const Adapter* TokenSwitch::adapter_of(const Control& control) const {
  return control.adapter == 0 ? nullptr : model_.own_adapters()[control.adapter - 1].get();
}

void TokenSwitch::add_sequence(std::span<const TokenId> earlier, std::span<TokenId> tokens) {
  const Adapter* adapter = nullptr;
  for (const TokenId token : earlier | std::views::reverse) {
    if (const Control* control = find(token)) {
      adapter = adapter_of(*control);
      break;
    }
  }
  uint32_t n_rows = 0;  // with the same adapter
  for (TokenId& token : tokens) {
    if (const Control* control = find(token)) {
      if (n_rows > 0) backend_.add_rows(adapter, n_rows);
      n_rows = 0;
      adapter = adapter_of(*control);
      token = control->substitute;
    }
    ++n_rows;
  }
  backend_.add_rows(adapter, n_rows);
}

}  // namespace kvik
