#include "server/dialects/ollama/ollama_names.h"

#include <fmt/format.h>

#include <utility>

#include "base/printable.h"
#include "service/adapters/adapter_registry.h"
#include "service/check_request.h"

namespace kvik {
namespace {

constexpr std::string_view kLatest = ":latest";

std::string_view without_latest(std::string_view name) {
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

// Returns the spelling of the name that the service knows.
std::optional<std::string> served_spelling(const ServiceApi& service, const std::string& name) {
  const std::string bare(without_latest(name));
  for (const std::string& spelling : {name, bare, bare + std::string(kLatest)}) {
    if (check_model(spelling, service.card(), service.adapters())) return spelling;
  }
  return std::nullopt;
}

}  // namespace

Result<OllamaName> read_ollama_name(const ServiceApi& service, const JsonFields& fields) {
  TRY_ASSIGN(auto name, fields.string("model"));
  if (!name || name->empty()) {
    TRY_ASSIGN(name, fields.string("name"));
  }
  OllamaName out;
  if (!name || name->empty()) return out;
  out.served = served_spelling(service, *name);
  if (!out.served) return model_not_found(*name, service.card());
  out.given = *std::move(name);
  return out;
}

std::string with_tag(std::string_view name) {
  const size_t folder = name.rfind('/');
  const bool has_tag = name.find(':', folder == name.npos ? 0 : folder) != name.npos;
  return std::string(name).append(has_tag ? "" : kLatest);
}

bool is_same_model(std::string_view a, std::string_view b) {
  return without_latest(a) == without_latest(b);
}

std::unexpected<Error> model_not_found(std::string_view name, const ModelCard& card) {
  return fail(ErrorCode::kNotFound,
              fmt::format("model '{}' not found; '{}' is served (kvik serve --alias '*' answers to "
                          "any name)",
                          printable(name), card.id),
              "model");
}

}  // namespace kvik
