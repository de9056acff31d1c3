#include "server/operate/router_models.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/dialects/json_fields.h"
#include "server/http/auth.h"
#include "server/http/status.h"
#include "server/operate/counter_sums.h"
#include "server/operate/merge_metrics.h"
#include "server/operate/metrics_page.h"
#include "server/proxy/proxy.h"
#include "server/proxy/proxy_reply.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Fields for OpenAI's clients, llama.cpp's (status) and the page's.
json::object model_json(const ModelStatus& status, std::string_view id, bool is_operator) {
  json::object out{{"id", id},
                   {"object", "model"},
                   {"created", 0},
                   {"owned_by", "kvik"},
                   {"type", "model"},
                   {"display_name", status.name},
                   {"state", name_of(status.state)},
                   {"status", {{"value", name_of(status.state)}}},
                   {"memory_bytes", status.planned_bytes},
                   {"kept_cache_bytes", status.kept_bytes},
                   {"requests", status.n_uses},
                   {"loads", status.n_loads},
                   {"crashes", status.n_crashes},
                   {"load_seconds", status.load_s}};
  if (status.n_ctx > 0) out["max_model_len"] = status.n_ctx;
  if (status.state == ModelState::kLoading) out["progress"] = status.progress;
  if (status.unload_s) out["unload_seconds"] = *status.unload_s;
  if (status.error) out["error"] = valid_utf8(status.error->message);
  if (is_operator) out["path"] = valid_utf8(status.path);
  return out;
}

HttpResponse json_answer(const json::object& out) {
  return {.status = 200, .body = json::serialize(out)};
}

const ModelStatus* find_status(const std::vector<ModelStatus>& all, std::string_view name) {
  for (const ModelStatus& status : all)
    if (status.name == name) return &status;
  return nullptr;
}

// Answers when the model is loaded, or could not be.
class LoadReply final : public PendingReply {
 public:
  LoadReply(ModelServers& models, std::string name, bool is_operator)
      : models_(models), name_(std::move(name)), is_operator_(is_operator) {
    models_.end_pause(name_);
    use_ = models_.use(name_, [wake = wake_] { (*wake)(); });
  }

  Kind kind() const override { return Kind::kWhole; }
  void set_wake(std::function<void()> wake) override { wake_->set(std::move(wake)); }
  State advance(std::string&) override {
    const ModelReadiness readiness = use_->readiness();
    error_ = readiness.error;
    return error_ || readiness.port ? State::kDone : State::kRunning;
  }
  HttpResponse response() override {
    if (error_) return model_error_response(*error_);
    const std::vector<ModelStatus> all = models_.list();
    const ModelStatus* const status = find_status(all, name_);
    return json_answer(status ? model_json(*status, name_, is_operator_) : json::object());
  }
  std::string final_error_event(const Error&) const override { return ""; }
  std::string summary() const override { return fmt::format("model={}", name_); }

 private:
  ModelServers& models_;
  const std::string name_;
  const bool is_operator_;
  const std::shared_ptr<LateWake> wake_ = std::make_shared<LateWake>();
  std::unique_ptr<ModelUse> use_;
  std::optional<Error> error_;
};

// Collects the metrics of the models' servers. A server that does not answer is represented by its
// counters, as far as the router knows them.
class MetricsReply final : public PendingReply {
 public:
  // own_pages: of the router itself, and of models that are not loaded.
  MetricsReply(const ModelRouter& router, std::vector<std::string> own_pages,
               const std::vector<ModelStatus>& loaded,
               const std::shared_ptr<const std::string>& request, CounterSums::Reader reader)
      : counters_(router.counters), reader_(reader), pages_(std::move(own_pages)) {
    for (const ModelStatus& model : loaded) {
      calls_.push_back(
          {.model = model.name,
           .n_loads = model.n_loads,
           .call = router.upstreams.call(*model.port, request, [wake = wake_] { (*wake)(); })});
    }
  }

  Kind kind() const override { return Kind::kWhole; }
  void set_wake(std::function<void()> wake) override { wake_->set(std::move(wake)); }
  State advance(std::string&) override {
    bool is_done = true;
    for (Call& call : calls_) {
      if (!call.call) continue;
      if (!call.call->take(call.page)) {
        is_done = false;
        continue;
      }
      const auto head = call.call->head();
      const bool is_whole = !call.call->error() && head && head->status == 200;
      call.call = nullptr;
      if (is_whole)
        call.page = counters_.with_earlier(call.model, call.n_loads, call.page, reader_);
      else
        call.page = reader_ == CounterSums::Reader::kOperator ? counters_.page_of(call.model) : "";
      pages_.push_back(std::move(call.page));
    }
    return is_done ? State::kDone : State::kRunning;
  }
  HttpResponse response() override {
    return {.status = 200,
            .body = merge_metrics(pages_),
            .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  std::string final_error_event(const Error&) const override { return ""; }
  std::string summary() const override { return "metrics"; }

 private:
  struct Call {
    std::string model;
    uint64_t n_loads;
    std::unique_ptr<UpstreamCall> call;  // null: it has ended
    std::string page = {};
  };

  const std::shared_ptr<LateWake> wake_ = std::make_shared<LateWake>();
  CounterSums& counters_;
  const CounterSums::Reader reader_;
  std::vector<std::string> pages_;
  std::vector<Call> calls_;
};

void add_model(const ModelStatus& status, MetricsPage& page) {
  const auto is_in = [&](ModelState state) { return status.state == state ? 1 : 0; };
  page.gauge({"kvik_model_state"}, "1 for the state that the model of a router is in.",
             {.label = "state",
              .parts = {{"unloaded", is_in(ModelState::kUnloaded)},
                        {"loading", is_in(ModelState::kLoading)},
                        {"loaded", is_in(ModelState::kLoaded)},
                        {"unloading", is_in(ModelState::kUnloading)},
                        {"failed", is_in(ModelState::kFailed)}}});
  page.gauge({"kvik_model_requests"}, "Requests that use a model of a router, or wait for it.",
             status.n_uses);
  page.counter({"kvik_model_loads_total"}, "Times that a model of a router was loaded.",
               status.n_loads);
  page.counter({"kvik_model_crashes_total"},
               "Times that the process of a router's model ended unexpectedly.", status.n_crashes);
  page.gauge({"kvik_model_load_seconds"}, "Duration of the last load of a router's model.",
             status.load_s);
  const bool is_loaded = status.state == ModelState::kLoaded;
  page.gauge(
      {"kvik_model_memory_bytes"},
      "Memory of a router's model: of its process while it is loaded, and of the KV pages "
      "kept while it is not.",
      {.label = "kind",
       .parts = {{"loaded", is_loaded ? status.planned_bytes : 0}, {"kept", status.kept_bytes}}});
}

// Returns the name in the body of a load or unload request. Errors: kInvalidArgument, kNotFound.
Result<std::string> named_model(const HandlerContext& context, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(const auto name, fields.string("model"));
  if (!name || name->empty())
    return fail(ErrorCode::kInvalidArgument, "model is missing: the name of a model", "model");
  if (!context.options.router) return *name;
  return context.options.router->models.resolve(*name);
}

std::optional<HttpResponse> refuse_operation(const HandlerContext& context,
                                             const HttpRequest& request) {
  if (is_operator(request, context.options)) return std::nullopt;
  return error_response(
      HttpFault{403, "models are loaded and unloaded with the key of an operator"});
}

}  // namespace

Reply router_models(const HandlerContext& context, const HttpRequest& request) {
  json::array data;
  std::string first_id, last_id;
  for (const ModelStatus& status : context.options.router->models.list()) {
    data.emplace_back(model_json(status, status.name, false));
    for (const std::string& alias : status.aliases)
      data.emplace_back(model_json(status, alias, false));
    if (first_id.empty()) first_id = status.name;
    last_id = status.aliases.empty() ? status.name : status.aliases.back();
  }
  const bool can_load = is_operator(request, context.options);
  return json_answer({{"object", "list"},
                      {"data", std::move(data)},
                      {"can_load", can_load},
                      {"can_pull", can_load && context.options.model_library != nullptr},
                      {"has_more", false},
                      {"first_id", first_id},
                      {"last_id", last_id}});
}

Reply router_model(const HandlerContext& context, std::string_view name) {
  const ModelServers& models = context.options.router->models;
  const auto resolved = models.resolve(name);
  if (!resolved) return error_response(resolved.error());
  const std::vector<ModelStatus> all = models.list();
  const ModelStatus* const status = find_status(all, *resolved);
  return json_answer(status ? model_json(*status, name, false) : json::object());
}

Reply router_metrics(const HandlerContext& context, const HttpRequest& request) {
  const ModelRouter& router = *context.options.router;
  const bool is_all = is_operator(request, context.options);
  std::vector<std::string> own;
  std::vector<ModelStatus> loaded;
  for (const ModelStatus& status : router.models.list()) {
    if (status.port) loaded.push_back(status);
    if (!is_all) continue;
    MetricsPage page(status.name);
    add_model(status, page);
    own.push_back(page.text());
    if (!status.port) own.push_back(router.counters.page_of(status.name));
  }
  return std::make_unique<MetricsReply>(
      router, std::move(own), loaded,
      std::make_shared<const std::string>(upstream_request(request, "")),
      is_all ? CounterSums::Reader::kOperator : CounterSums::Reader::kTenant);
}

Reply handle_load_model(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body) {
  if (auto refusal = refuse_operation(context, request)) return std::move(*refusal);
  auto name = named_model(context, body);
  if (!name) return error_response(name.error());
  if (!context.options.router) return served_model(context, *name);  // which is loaded
  return std::make_unique<LoadReply>(context.options.router->models, std::move(*name), true);
}

Reply handle_unload_model(const HandlerContext& context, const HttpRequest& request,
                          const RequestBody& body) {
  if (auto refusal = refuse_operation(context, request)) return std::move(*refusal);
  const auto name = named_model(context, body);
  if (!name) return error_response(name.error());
  if (!context.options.router)
    return error_response(Error{ErrorCode::kUnsupported,
                                "this server serves one model, which stays loaded; kvik serve "
                                "--models DIR or --keep-alive TIME unloads models"});
  context.options.router->models.unload(*name);
  return router_model(context, *name);
}

}  // namespace kvik
