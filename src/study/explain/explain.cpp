#include "study/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "host/build_info.h"
#include "host/instance.h"
#include "host/progress_bar.h"
#include "model/recurrent/state_layout.h"
#include "service/experiment/cache_experiment.h"
#include "study/explain/explain_report.h"

namespace kvik {
namespace {

constexpr uint32_t kMaxGeneratedTokens = 384, kMinGeneratedTokens = 16;  // defaults
constexpr uint32_t kMinTokens = 4;        // minimum for a meaningful comparison
constexpr double kNaiveSeconds = 8;       // limit for one run without a cache
constexpr uint32_t kRepeats = 3;          // number of times that each run is repeated
constexpr double kExperimentMs = 40'000;  // limit for all repeats
constexpr uint32_t kSharedTokens = 512, kOwnTokens = 16;
constexpr uint32_t kSequences = 8;  // the pages of all sequences stay in memory
constexpr int kSteps = 26;          // approximate number of steps of the progress bar

// The prompt is long enough that recomputing it is clearly more expensive than computing one token.
constexpr std::string_view kPrompt =
    "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer the "
    "slings and arrows of outrageous fortune, or to take arms against a sea of troubles, and by "
    "opposing end them. To die, to sleep, no more; and by a sleep to say we end the heart-ache and "
    "the thousand natural shocks that flesh is heir to: 'tis a consummation devoutly to be wish'd. "
    "To die, to sleep; to sleep, perchance to dream. Ay, there's the rub, for in that sleep of "
    "death what dreams may come, when we have shuffled off this mortal coil, must give us pause.";

std::vector<TokenId> prompt_of(const ExplainOptions& options, const LoadedModel& loaded) {
  std::vector<TokenId> ids = loaded.tokenizer->tokenize(
      options.prompt.value_or(std::string(kPrompt)), {.add_bos = true, .parse_special = false});
  const size_t most = std::max<size_t>(1, loaded.n_ctx / 2);
  if (!options.prompt && ids.size() > most) ids.resize(most);
  return ids;
}

// Returns the maximum number of tokens that can be computed without a cache in kNaiveSeconds.
uint32_t tokens_in_time(uint32_t n_prompt, double prefill_tok_s) {
  double seconds = 0;
  uint32_t n = 0;
  while (n < kMaxGeneratedTokens && seconds <= kNaiveSeconds)
    seconds += (n_prompt + n++) / prefill_tok_s;
  return std::max(kMinGeneratedTokens, n);
}

Result<uint32_t> max_tokens_of(const ExplainOptions& options, uint32_t n_prompt, uint64_t n_ctx,
                               double prefill_tok_s) {
  if (n_prompt == 0 || n_prompt + uint64_t{kMinGeneratedTokens} > n_ctx) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens and the context holds {}, expected room for "
                            "{} more",
                            n_prompt, n_ctx, kMinGeneratedTokens));
  }
  if (options.max_tokens && *options.max_tokens < kMinTokens) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--max-tokens is {}, expected at least {}",
                                                         *options.max_tokens, kMinTokens));
  }
  const uint64_t wanted =
      options.max_tokens ? *options.max_tokens : tokens_in_time(n_prompt, prefill_tok_s);
  return static_cast<uint32_t>(std::min(wanted, n_ctx - n_prompt));
}

// Returns figures about the recurrent layers. The KV cache of such a model is small, but its
// snapshots are not.
boost::json::object state_json(const ModelConfig& config, const KvFootprint& kv) {
  const uint64_t n_bytes = state_layout(config).n_bytes();
  return {{"layers", config.n_state_layers()},
          {"attention_layers", config.n_attention_layers()},
          {"bytes", n_bytes},
          {"kv_bytes_per_token", kv.bytes_per_token},
          {"as_tokens", n_bytes / std::max<uint64_t>(kv.bytes_per_token, 1)}};
}

boost::json::object model_json(const ExplainOptions& options, const ModelConfig& config) {
  const auto n_windowed = std::ranges::count_if(config.layers, [](const LayerConfig& layer) {
    return layer.if_attention() && layer.attention().window > 0;
  });
  return {{"name", model_id(options.model).text()},
          {"architecture", config.architecture},
          {"layers", config.n_layers},
          {"heads", config.attention().n_heads},
          {"kv_heads", config.attention().n_kv_heads},
          {"head_dim", config.attention().head_dim},
          {"model_dim", config.model_dim},
          {"vocabulary", config.n_vocab},
          {"windowed_layers", n_windowed},
          {"kv_type", name_of(options.model.kv_type)}};
}

// Performs all runs and returns their results.
Result<boost::json::object> run_experiment(ServiceApi& service, CacheExperiment::Options given,
                                           const DescribeExperiment& describe,
                                           const Progress& progress) {
  std::counting_semaphore<> news{0};  // signaled by the engine thread
  CacheExperiment experiment(service, std::move(given));
  experiment.set_wake([&news] { news.release(); });
  TRY(experiment.start());
  for (;;) {
    TRY_ASSIGN(const bool is_done, experiment.advance());
    if (is_done) break;
    progress(fmt::format("{} run, repeat {}", name_of(experiment.runs().back().way),
                         experiment.n_repeats()));
    news.acquire();
  }
  experiment.set_wake(nullptr);
  return describe(service, experiment);
}

// Takes the measurements that borrow the model first, because the engine takes ownership of it.
Result<ExplainFigures> measure_figures(const ExplainOptions& options, const LoadedModel& loaded,
                                       const Progress& progress) {
  const KvType type = options.model.kv_type;
  ExplainFigures figures{.machine = {},
                         .n_threads = loaded.backend->n_threads(),
                         .backend = std::string(loaded.backend->name()),
                         .phases = {},
                         .depth = probe_depth(loaded),
                         .types = {},
                         .shapes = {},
                         .sharing = {},
                         .memory = {}};
  progress("limits of this machine");
  figures.machine = measure_machine_limits(figures.n_threads);
  TRY_ASSIGN(const LimitModel limits, LimitModel::of(options.model.model, loaded));
  figures.phases = measure_phases(loaded, type, limits, figures.machine, progress);
  figures.types = measure_types(loaded, figures.depth, progress);
  figures.shapes = measure_shapes(loaded, type, figures.depth, progress);
  TRY_ASSIGN(const auto source, open_model(options.model));
  TRY_ASSIGN(const Footprint footprint, Footprint::of(*source, *loaded.backend));
  figures.memory = memory_table(footprint, loaded.n_ctx);
  return figures;
}

// Loads the model with room for KV pages of all types, which are compared.
Result<LoadedModel> load_for_all_types(ModelOptions options) {
  const KvType type = std::exchange(options.kv_type, KvType::kInt8);
  TRY_ASSIGN(LoadedModel loaded, load_model(options));
  loaded.kv_type = type;
  return loaded;
}

Result<boost::json::object> explain_model(const ExplainOptions& options,
                                          const DescribeExperiment& describe,
                                          const Progress& progress) {
  TRY_ASSIGN(LoadedModel loaded, load_for_all_types(options.model));
  const ModelConfig config = loaded.model->config();
  const uint64_t n_ctx = loaded.n_ctx;
  std::vector<TokenId> prompt = prompt_of(options, loaded);
  const auto n_prompt = static_cast<uint32_t>(prompt.size());
  TRY(max_tokens_of(options, n_prompt, n_ctx, 1));  // checked before the long measurements
  TRY_ASSIGN(ExplainFigures figures, measure_figures(options, loaded, progress));
  TRY_ASSIGN(const uint32_t max_tokens,
             max_tokens_of(options, n_prompt, n_ctx, figures.phases.rows.back().median));

  const auto n_shared =
      static_cast<uint32_t>(std::min<uint64_t>(kSharedTokens, n_ctx - kOwnTokens - 1));
  boost::json::object state = state_json(config, loaded.kv());
  const uint64_t budget = loaded.kv().budget(n_ctx, kSequences);
  TRY_ASSIGN(const auto instance, Instance::create(std::move(loaded), {.kv_budget_bytes = budget,
                                                                       .max_running = kSequences}));
  ServiceApi& service = instance->service();
  progress("two users with one beginning");
  TRY_ASSIGN(figures.sharing, measure_sharing(service, n_shared, kOwnTokens));
  TRY_ASSIGN(boost::json::object report, run_experiment(service,
                                                        {.prompt = std::move(prompt),
                                                         .max_tokens = max_tokens,
                                                         .cache_salt = "explain",
                                                         .tenant = "",
                                                         .repeats = kRepeats,
                                                         .max_ms = kExperimentMs},
                                                        describe, progress));
  report["version"] = build_info().version;
  report["model"] = model_id(options.model).text();
  report["context"] = service.card().n_ctx_max;
  report["geometry"] = model_json(options, config);
  if (config.has_state()) report["state"] = std::move(state);
  for (const auto& [name, value] : figures_json(figures)) report[name] = value;
  return report;
}

// Returns the median over all tokens except the first. The time of a token is the minimum of its
// repeats.
double itl_ms(const boost::json::value& run) {
  std::vector<double> ms;
  for (const auto& value : run.at("ms").as_array()) ms.push_back(value.to_number<double>());
  return spread_of({ms.begin() + 1, ms.end()}).median;
}

std::string state_summary(const boost::json::object& state, uint64_t n_layers) {
  const auto number = [&](const char* key) { return state.at(key).to_number<uint64_t>(); };
  return fmt::format(
      "its cache is small: K and V lie in {} of {} layers, {} a token, and {} fold all tokens into "
      "a state of {}\nits snapshots are not: each is a copy of that state, as much as K and V of "
      "{} "
      "tokens, so few are kept, and a prompt continues from the last one in it\n",
      number("attention_layers"), n_layers, format_bytes(number("kv_bytes_per_token")),
      number("layers"), format_bytes(number("bytes")), fmt::group_digits(number("as_tokens")));
}

std::string summary_of(const boost::json::object& report) {
  const auto& runs = report.at("runs").as_array();
  const auto rows = [](const boost::json::value& run) {
    return run.at("kv_rows").as_array().back().to_number<uint64_t>();
  };
  std::string out = fmt::format("{} tokens of prompt, {} of answer\n",
                                report.at("prompt").at("tokens").to_number<uint64_t>(),
                                report.at("answer").at("tokens").to_number<uint64_t>());
  for (size_t i = 0; i < 2; ++i) {
    out += fmt::format("{:<15}{:>9.2f} ms a token, {:>8} rows of K and V computed\n",
                       i == 0 ? "with the cache" : "without", itl_ms(runs[i]), rows(runs[i]));
  }
  if (const auto* state = report.if_contains("state")) {
    out +=
        state_summary(state->as_object(), report.at("geometry").at("layers").to_number<uint64_t>());
  }
  return out + fmt::format("{} logits compared byte for byte, {} different\n",
                           report.at("bits").at("compared").to_number<uint64_t>(),
                           report.at("bits").at("different").to_number<uint64_t>());
}

}  // namespace

Result<Explained> explain(const ExplainOptions& options, const DescribeExperiment& describe) {
  if (options.model.gpu) {
    return fail(ErrorCode::kInvalidArgument,
                "kvik explain measures the processor: expected --device cpu");
  }
  const TimePoint begin = SteadyClock().now();
  boost::json::object report;
  {
    ProgressBar bar("explaining");
    int n_done = 0;
    std::string last;
    const auto progress = [&](const std::string& what) {
      if (what == last) return;
      log::debug("{}", what);
      bar.show(static_cast<uint64_t>(std::min(++n_done, kSteps - 1)), kSteps, what);
      last = what;
    };
    TRY_ASSIGN(report, explain_model(options, describe, progress));
  }
  report["took_s"] = to_s(SteadyClock().now() - begin);
  report["time"] = static_cast<int64_t>(std::time(nullptr));
  return Explained{.json = boost::json::serialize(report),
                   .summary = summary_of(report),
                   .is_equal = report.at("bits").at("equal").as_bool()};
}

}  // namespace kvik
