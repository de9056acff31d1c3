#include "host/models/model_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "base/text/nearest_name.h"

namespace kvik {
namespace {

constexpr std::string_view kLatest = ":latest";

// Returns null if there is none.
const ModelSpec* find_exact(const std::vector<const ModelSpec*>& models, std::string_view name) {
  for (const ModelSpec* const model : models) {
    if (model->name == name || std::ranges::count(model->aliases, name) > 0) return model;
  }
  return nullptr;
}

}  // namespace

Result<const ModelSpec*> find_model(const std::vector<const ModelSpec*>& models,
                                    std::string_view requested) {
  const ModelSpec* found = find_exact(models, requested);
  if (!found && requested.ends_with(kLatest))
    found = find_exact(models, requested.substr(0, requested.size() - kLatest.size()));
  const size_t colon = requested.rfind(':');
  if (!found && colon != std::string_view::npos)
    found = find_exact(models, requested.substr(0, colon));
  if (found) return found;
  if (models.empty())
    return fail(ErrorCode::kNotFound, "there is no model; kvik pull NAME downloads one", "model");
  std::vector<std::string> names;
  for (const ModelSpec* const model : models) names.push_back(model->name);
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no model '{}'{}; the models are {}", printable(requested),
                          did_you_mean(requested, names), fmt::join(names, ", ")),
              "model");
}

}  // namespace kvik
