#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/quantity.h"
#include "cli/remote/served_models.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/running/server_flags.h"

namespace kvik {
namespace {

struct PsOptions {
  ServerFlags server;
  bool as_json = false;
};

// A line of the table. Numbers are absent if the server does not report them.
struct ModelRow {
  std::string name, state;
  uint64_t n_ctx = 0;
  std::optional<double> kv_bytes, kv_budget_bytes;  // pages in use or cached; the whole budget
  std::optional<double> n_running, n_waiting;
  std::optional<uint64_t> up_s;  // since the model was loaded
};

std::optional<double> sum_of_states(const MetricsText& metrics, const std::string& label) {
  std::optional<double> total;
  for (const char* state : {"leased", "sealed", "cached"}) {
    const auto bytes = metrics.sum("kvik_kv_bytes", {label, fmt::format("state=\"{}\"", state)});
    if (bytes) total = total.value_or(0) + *bytes;
  }
  return total;
}

ModelRow row_of(const ServedModel& model, const MetricsText& metrics) {
  const std::string label = fmt::format("model_name=\"{}\"", model.display_name);
  ModelRow row{.name = model.id,
               .state = model.state.empty() ? "loaded" : model.state,
               .n_ctx = model.n_ctx,
               .kv_bytes = sum_of_states(metrics, label),
               .kv_budget_bytes = metrics.sum("kvik_kv_budget_bytes", {label}),
               .n_running = metrics.sum("kvik_requests_running", {label}),
               .n_waiting = metrics.sum("kvik_requests_waiting", {label}),
               .up_s = std::nullopt};
  const auto now = static_cast<uint64_t>(std::time(nullptr));
  if (row.state == "loaded" && model.created_s > 0 && model.created_s <= now) {
    row.up_s = now - model.created_s;
  }
  return row;
}

// "3 s", "12 min", "5 h 3 min", "2 d 4 h"
std::string time_text(uint64_t seconds) {
  const uint64_t minutes = seconds / 60, hours = minutes / 60;
  if (minutes == 0) return fmt::format("{} s", seconds);
  if (hours == 0) return fmt::format("{} min", minutes);
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string bytes_text(std::optional<double> bytes) {
  return bytes ? format_bytes(static_cast<uint64_t>(*bytes)) : "-";
}

std::string kv_text(const ModelRow& row) {
  if (!row.kv_bytes) return "-";
  if (!row.kv_budget_bytes) return bytes_text(row.kv_bytes);
  return fmt::format("{} of {}", bytes_text(row.kv_bytes), bytes_text(row.kv_budget_bytes));
}

std::string requests_text(const ModelRow& row) {
  if (!row.n_running) return "-";
  const double n_waiting = row.n_waiting.value_or(0);
  std::string text = fmt::format("{:.0f} running", *row.n_running);
  if (n_waiting > 0) text += fmt::format(", {:.0f} waiting", n_waiting);
  return text;
}

std::string as_table(const std::vector<ModelRow>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {"MODEL", "STATE", "CONTEXT", "KV MEMORY", "REQUESTS", "UP"}};
  for (const ModelRow& row : rows) {
    lines.push_back({printable(row.name), printable(row.state),
                     row.n_ctx ? std::to_string(row.n_ctx) : "-", kv_text(row), requests_text(row),
                     row.up_s ? time_text(*row.up_s) : "-"});
  }
  std::vector<size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      out += fmt::format("{:<{}}", line[i], widths[i] + 2);
    }
    out += line.back() + "\n";
  }
  return out;
}

boost::json::value number_or_null(std::optional<double> value) {
  return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

std::string as_json(const std::string& url, const std::vector<ModelRow>& rows) {
  boost::json::array models;
  for (const ModelRow& row : rows) {
    boost::json::object model{{"name", row.name},
                              {"state", row.state},
                              {"ctx", row.n_ctx},
                              {"kv_bytes", number_or_null(row.kv_bytes)},
                              {"kv_memory_bytes", number_or_null(row.kv_budget_bytes)},
                              {"running", number_or_null(row.n_running)},
                              {"waiting", number_or_null(row.n_waiting)}};
    model["up_seconds"] = row.up_s ? boost::json::value(*row.up_s) : boost::json::value(nullptr);
    models.push_back(std::move(model));
  }
  const boost::json::object out{{"url", url}, {"models", std::move(models)}};
  return boost::json::serialize(out) + "\n";
}

Result<std::string> show_models(const PsOptions& options) {
  TRY_ASSIGN(const HttpClient client, options.server.client());
  TRY_ASSIGN(const auto models, list_models(client, kAskTime));
  const auto metrics = client.get("/metrics", kAskTime);
  const MetricsText page(metrics && metrics->status == 200 ? metrics->body : std::string());
  std::vector<ModelRow> rows;
  for (const ServedModel& model : models) {
    // Aliases and adapters are other names of a model that is listed.
    if (model.parent.empty() && model.id == model.display_name) rows.push_back(row_of(model, page));
  }
  const std::string url = client.url().text();
  return options.as_json ? as_json(url, rows) : as_table(rows);
}

}  // namespace

void add_ps(CommandLine& line) {
  auto options = std::make_shared<PsOptions>();
  Flags flags = line.add("ps", "List the models of a running server and what they use",
                         [options] { return finish(show_models(*options)); });
  options->server.add_to(flags);
  flags.add({{"--json", &options->as_json, "print a JSON object"}});
  flags.examples({"kvik ps", "kvik ps --url http://127.0.0.1:9000 --json"});
}

}  // namespace kvik
