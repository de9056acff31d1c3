#include "host/models/model_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/printable.h"
#include "base/text/nearest_name.h"

namespace kvik {
namespace {

constexpr std::string_view kLatest = ":latest";

std::optional<size_t> find_exact(const std::vector<ModelSpec>& models, std::string_view name) {
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name || std::ranges::count(models[i].aliases, name) > 0) return i;
  }
  return std::nullopt;
}

}  // namespace

Result<size_t> find_model(const std::vector<ModelSpec>& models, std::string_view requested) {
  std::optional<size_t> found = find_exact(models, requested);
  if (!found && requested.ends_with(kLatest))
    found = find_exact(models, requested.substr(0, requested.size() - kLatest.size()));
  const size_t colon = requested.rfind(':');
  if (!found && colon != std::string_view::npos)
    found = find_exact(models, requested.substr(0, colon));
  if (found) return *found;
  std::vector<std::string> names;
  for (const ModelSpec& model : models) names.push_back(model.name);
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no model '{}'{}; the models are {}", printable(requested),
                          did_you_mean(requested, names), fmt::join(names, ", ")),
              "model");
}

}  // namespace kvik
