#include "service/adapters/adapter_registry.h"

#include <algorithm>

#include "service/model_name.h"

namespace kvik {

std::optional<std::string> adapter_name(const AdapterRegistry* book, const ModelCard& card,
                                        std::string_view model) {
  const auto is_model = [&](std::string_view name) { return is_same_model(name, model); };
  if (!book || is_model(card.id.text())) return std::nullopt;
  if (std::ranges::any_of(card.aliases, is_model)) return std::nullopt;
  for (const std::string_view name : {model, without_latest_tag(model)}) {
    if (book->has(name)) return std::string(name);
  }
  const auto adapter_after = [&](std::string_view id) -> std::optional<std::string> {
    if (!model.starts_with(id) || model.size() <= id.size() || model[id.size()] != ':') {
      return std::nullopt;
    }
    const std::string_view name = model.substr(id.size() + 1);
    return book->has(name) ? std::optional(std::string(name)) : std::nullopt;
  };
  if (auto name = adapter_after(card.id.text())) return name;
  for (const std::string& alias : card.aliases) {
    if (auto name = adapter_after(alias)) return name;
  }
  return std::nullopt;
}

}  // namespace kvik
