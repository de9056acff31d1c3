#include "server/dialects/ollama/ollama_model_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "base/text/ascii_case.h"
#include "server/dialects/fill_in_middle.h"
#include "server/dialects/ollama/ollama_names.h"
#include "server/dialects/ollama/ollama_request.h"
#include "server/dialects/utc_time.h"

namespace kvik {
namespace {

namespace json = boost::json;

// The served model stays loaded.
constexpr std::string_view kNever = "9999-12-31T23:59:59Z";

std::string time_of(int64_t seconds) {
  return utc_time(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
}

// Returns "134.5M" or "1.5B"; empty for 0.
std::string parameter_size(uint64_t n) {
  constexpr std::pair<double, char> kUnits[] = {{1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
  const auto count = static_cast<double>(n);
  for (const auto& [size, letter] : kUnits) {
    if (count >= size) return fmt::format("{:.1f}{}", count / size, letter);
  }
  return n == 0 ? "" : std::to_string(n);
}

json::object details_json(const StoredModel& model) {
  const std::string family = valid_utf8(model.family);
  return {{"parent_model", ""},
          {"format", model.format},
          {"family", family},
          {"families", json::array{family}},
          {"parameter_size", model.parameter_size},
          {"quantization_level", model.quantization}};
}

// Returns the properties of the served model under one of its names.
StoredModel as_stored(const ModelCard& card, std::string_view name) {
  return {.name = with_tag(name),
          .path = {},
          .n_bytes = card.weights.n_bytes,
          .digest = card.weights.digest,
          .modified = static_cast<int64_t>(card.created_s),
          .format = card.weights.format,
          .family = card.architecture.text(),
          .parameter_size = parameter_size(card.weights.n_parameters),
          .quantization = ascii_upper(card.weights.type)};
}

}  // namespace

json::array capabilities_json(const ServiceApi& service) {
  if (!service.card().generates) {
    json::array out{"embedding"};
    if (service.card().n_labels == 1) out.emplace_back("rerank");
    return out;
  }
  json::array out{"completion"};
  const std::string& source = service.card().chat_template;
  const auto mentions = [&](std::string_view word) { return source.contains(word); };
  if (mentions("tools")) out.emplace_back("tools");
  if (mentions("enable_thinking") || mentions("reasoning_effort") || mentions("<think>"))
    out.emplace_back("thinking");
  if (can_fill_in_middle(service)) out.emplace_back("insert");
  return out;
}

json::object served_model_json(const ModelCard& card, std::string_view name) {
  return stored_model_json(as_stored(card, name));
}

json::object stored_model_json(const StoredModel& model) {
  const std::string name = valid_utf8(model.name);
  return {
      {"name", name},          {"model", name},          {"modified_at", time_of(model.modified)},
      {"size", model.n_bytes}, {"digest", model.digest}, {"details", details_json(model)}};
}

json::object running_model_json(const ModelCard& card, const ServerOptions& options) {
  uint64_t n_bytes = 0;
  for (const PlannedMemory& part : options.memory_plan) n_bytes += part.n_bytes;
  json::object out = served_model_json(card, card.id.text());
  out.erase("modified_at");
  out["size"] = n_bytes;
  out["size_vram"] = card.backend.starts_with("cuda") ? n_bytes : 0;
  out["expires_at"] = kNever;
  out["context_length"] = card.n_ctx_max;
  return out;
}

json::object router_model_json(const ModelStatus& status) {
  StoredModel model;
  model.name = with_tag(status.name);
  model.path = status.path;
  return stored_model_json(model);
}

json::object loaded_model_json(const ModelStatus& status) {
  json::object out = router_model_json(status);
  out.erase("modified_at");
  out["size"] = status.planned_bytes;
  out["size_vram"] = 0;
  out["expires_at"] = kNever;
  if (status.unload_s) {
    const auto left = std::chrono::seconds(static_cast<int64_t>(*status.unload_s));
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    out["expires_at"] = utc_time(now + left);
  }
  return out;
}

// Clients take the context length as the most that a request may hold, which is the served context.
json::object served_details_json(const ServiceApi& service) {
  const ModelCard& card = service.card();
  const std::string family = card.architecture.text();
  const json::object info{{"general.architecture", family},
                          {"general.parameter_count", card.weights.n_parameters},
                          {family + ".context_length", card.n_ctx_max},
                          {family + ".embedding_length", card.model_dim},
                          {family + ".vocab_size", card.n_vocab}};
  json::object out = stored_details_json(as_stored(card, card.id.text()));
  out["parameters"] = fmt::format("num_ctx {}", card.n_ctx_max);
  out["template"] = card.chat_template;
  out["model_info"] = info;
  out["capabilities"] = capabilities_json(service);
  return out;
}

json::object stored_details_json(const StoredModel& model) {
  return {{"license", ""},
          {"modelfile", ""},
          {"parameters", ""},
          {"template", ""},
          {"details", details_json(model)},
          {"model_info", {{"general.architecture", valid_utf8(model.family)}}},
          {"capabilities", json::array{"completion"}},
          {"modified_at", time_of(model.modified)}};
}

}  // namespace kvik
