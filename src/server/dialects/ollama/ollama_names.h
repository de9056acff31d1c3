#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Names of models in Ollama's API: NAME and NAME:latest are the same model.

// The name in a request.
struct OllamaName {
  std::string given;                  // as the client wrote it; empty: it wrote none
  std::optional<std::string> served;  // CompletionRequest::model
};

// Reads `model`, or `name` as older clients call it. An absent or empty name is the served model.
// Errors: kInvalidArgument, kNotFound.
Result<OllamaName> read_ollama_name(const ServiceApi& service, const JsonFields& fields);

// Returns the name with a tag: "demo:latest" for "demo".
std::string with_tag(std::string_view name);
// Returns whether both are names of one model.
bool is_same_model(std::string_view a, std::string_view b);

// Returns the error for a model that is not on this server.
std::unexpected<Error> model_not_found(std::string_view name, const ModelCard& card);

}  // namespace kvik
