#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Reads `model`, or `name` as older clients call it; std::nullopt or an empty name is the served
// model. Errors: kInvalidArgument, kNotFound.
Result<std::optional<std::string>> read_ollama_name(const ServiceApi& service,
                                                    const JsonFields& fields);

// Returns the name with a tag: "demo:latest" for "demo".
std::string with_tag(std::string_view name);

// Returns the error for a model that is not on this server.
std::unexpected<Error> model_not_found(std::string_view name, const ModelCard& card);

}  // namespace kvik
