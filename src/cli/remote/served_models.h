#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/remote/http_client.h"
#include "service/service_api.h"

namespace kvik {

// An entry of /v1/models.
struct ServedModel {
  std::string id;
  std::string state;   // "loaded", "loading", … where the server reports it; empty otherwise
  std::string parent;  // the base model of an adapter; empty: none
  // The model that the name stands for; the same as `id`, except for aliases and adapters.
  std::string display_name;
  uint64_t n_ctx = 0;      // context in tokens; 0: not known
  uint64_t created_s = 0;  // Unix time at which the model was loaded; 0: not known
};

// Reads the body of /v1/models. Errors: kCorrupt if it is not a list of models.
Result<std::vector<ServedModel>> read_models(std::string_view body);

// Returns the models of a server. Errors: those of HttpClient, and of an error answer, and of
// read_models().
Result<std::vector<ServedModel>> list_models(const HttpClient& client, Duration timeout);

// Returns the entry with this name.
std::optional<ServedModel> find_model(const std::vector<ServedModel>& models,
                                      std::string_view name);

// Returns what is known about a model, for the chat. Fields that the server does not report are
// empty.
ModelCard card_of(const HttpClient& client, const ServedModel& model, Duration timeout);

// The text of /metrics.
class MetricsText {
 public:
  explicit MetricsText(std::string text) : text_(std::move(text)) {}

  // Returns the sum of a metric over the lines that have all these labels, written as NAME="VALUE";
  // std::nullopt if there is none.
  std::optional<double> sum(std::string_view name, const std::vector<std::string>& labels) const;

 private:
  std::string text_;
};

}  // namespace kvik
