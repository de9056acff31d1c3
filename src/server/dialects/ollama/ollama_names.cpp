#include "server/dialects/ollama/ollama_names.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "service/check_request.h"

namespace kvik {

Result<std::optional<std::string>> read_ollama_name(const ServiceApi& service,
                                                    const JsonFields& fields) {
  TRY_ASSIGN(auto name, fields.string("model"));
  if (!name || name->empty()) {
    TRY_ASSIGN(name, fields.string("name"));
  }
  if (!name || name->empty()) return std::optional<std::string>();
  if (check_model(name, service.card(), service.adapters())) return name;
  return model_not_found(*name, service.card());
}

std::string with_tag(std::string_view name) {
  const size_t folder = name.rfind('/');
  const bool has_tag = name.find(':', folder == name.npos ? 0 : folder) != name.npos;
  return std::string(name).append(has_tag ? "" : ":latest");
}

std::unexpected<Error> model_not_found(std::string_view name, const ModelCard& card) {
  return fail(ErrorCode::kNotFound,
              fmt::format("model '{}' not found; '{}' is served (kvik serve --alias '*' answers to "
                          "any name)",
                          printable(name), card.id),
              "model");
}

}  // namespace kvik
