#include "cli/remote/served_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <charconv>
#include <system_error>

namespace kvik {
namespace {

namespace json = boost::json;

std::string text_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

uint64_t count_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (!value) return 0;
  if (value->is_uint64()) return value->get_uint64();
  return value->is_int64() && value->get_int64() > 0 ? static_cast<uint64_t>(value->get_int64())
                                                     : 0;
}

ServedModel model_of(const json::object& entry) {
  ServedModel model{.id = text_in(entry, "id"),
                    .state = text_in(entry, "state"),
                    .parent = text_in(entry, "parent"),
                    .display_name = text_in(entry, "display_name"),
                    .n_ctx = count_in(entry, "max_model_len"),
                    .created_s = count_in(entry, "created")};
  if (model.display_name.empty()) model.display_name = model.id;
  return model;
}

}  // namespace

Result<std::vector<ServedModel>> read_models(std::string_view body) {
  std::error_code failed;
  const json::value parsed = json::parse(body, failed);
  const json::object* const page = failed ? nullptr : parsed.if_object();
  const json::value* const data = page ? page->if_contains("data") : nullptr;
  if (!data || !data->is_array()) {
    return fail(ErrorCode::kCorrupt, "its /v1/models is not a list of models");
  }
  std::vector<ServedModel> models;
  for (const json::value& entry : data->get_array()) {
    if (!entry.is_object()) continue;
    ServedModel model = model_of(entry.get_object());
    if (!model.id.empty()) models.push_back(std::move(model));
  }
  return models;
}

Result<std::vector<ServedModel>> list_models(const HttpClient& client, Duration timeout) {
  TRY_ASSIGN(const HttpAnswer answer, client.get("/v1/models", timeout));
  if (answer.status != 200) return std::unexpected<Error>(error_of(answer));
  auto models = read_models(answer.body);
  if (models) return models;
  return fail(models.error().code, fmt::format("{} is not a server that Kvik knows: {}",
                                               client.url().text(), models.error().message));
}

std::optional<ServedModel> find_model(const std::vector<ServedModel>& models,
                                      std::string_view name) {
  const auto found = std::ranges::find(models, name, &ServedModel::id);
  if (found == models.end()) return std::nullopt;
  return *found;
}

ModelCard card_of(const HttpClient& client, const ServedModel& model, Duration timeout) {
  ModelCard card{
      .id = model.id, .architecture = "", .n_ctx_max = static_cast<uint32_t>(model.n_ctx)};
  const auto answer = client.get("/props", timeout);
  if (!answer || answer->status != 200) return card;
  std::error_code failed;
  const json::value parsed = json::parse(answer->body, failed);
  const json::object* const props = failed ? nullptr : parsed.if_object();
  // A server of several models may describe another one.
  if (!props || text_in(*props, "model_alias") != model.display_name) return card;
  card.architecture = text_in(*props, "architecture");
  card.n_ctx_train = static_cast<uint32_t>(count_in(*props, "n_ctx_train"));
  card.n_vocab = static_cast<uint32_t>(count_in(*props, "n_vocab"));
  card.model_dim = static_cast<uint32_t>(count_in(*props, "n_embd"));
  return card;
}

std::optional<double> MetricsText::sum(std::string_view name,
                                       const std::vector<std::string>& labels) const {
  std::optional<double> total;
  std::string_view rest = text_;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.starts_with(name)) continue;
    const std::string_view after = line.substr(name.size());
    if (!after.starts_with('{') && !after.starts_with(' ')) continue;
    const size_t blank = line.rfind(' ');
    const std::string_view given = line.substr(name.size(), blank - name.size());
    const bool has_labels = std::ranges::all_of(
        labels, [&](const std::string& label) { return given.find(label) != given.npos; });
    if (!has_labels) continue;
    double value = 0;
    const auto [at, error] =
        std::from_chars(line.data() + blank + 1, line.data() + line.size(), value);
    if (error == std::errc()) total = total.value_or(0) + value;
  }
  return total;
}

}  // namespace kvik
