#include "study/explain/explain_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <random>
#include <span>

#include "host/available_memory.h"
#include "study/bench/bench_runner.h"

namespace kvik {
namespace {

constexpr uint32_t kRepeat = 3;
constexpr uint32_t kTypeRepeat = 7;  // the measurements are short, and the fastest is used

BenchCase prefill_of(uint32_t n_tokens) {
  return {.kind = BenchCase::Kind::kPrefill, .n_tokens = n_tokens};
}

AttentionCase attention_of(const ModelConfig& config, KvType type, uint32_t depth) {
  AttentionCase probe{.kv = {.type = type,
                             .n_layers = config.n_attention_layers(),
                             .n_kv_heads = config.attention().n_kv_heads,
                             .head_dim = config.attention().head_dim},
                      .n_heads = config.attention().n_heads,
                      .scale = config.attention().scale,
                      .windows = {},
                      .depth = depth};
  for (const LayerConfig& layer : std::span(config.layers).first(config.n_layers)) {
    if (layer.if_attention()) probe.windows.push_back(layer.attention().window);
  }
  return probe;
}

// Returns the bytes of the pages needed at the same time, without pages that left the window.
uint64_t needed_bytes(const Backend& backend, const AttentionCase& probe) {
  const uint64_t layer_page = backend.page_bytes(probe.kv) / probe.kv.n_layers;
  uint64_t n_bytes = 0;
  for (const uint32_t window : probe.windows) {
    n_bytes += layer_page * GroupRule::of_window(window).pages_at_once(probe.depth);
  }
  return n_bytes;
}

// Waits for the end of one completion.
class EndSink final : public CompletionSink {
 public:
  void on_chunk(CompletionChunk) override {}
  void on_done(const Usage& usage) override { usage_.set_value(usage); }
  Usage wait() { return usage_.get_future().get(); }

 private:
  std::promise<Usage> usage_;
};

Result<Usage> first_token(ServiceApi& service, std::vector<TokenId> prompt,
                          const std::string& salt) {
  CompletionRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = 1;
  request.engine.sampling.temperature = 0;
  request.seed = 0;
  request.ignore_eos = true;
  request.engine.cache_salt = salt;
  const auto sink = std::make_shared<EndSink>();
  TRY_ASSIGN(const auto completion, service.complete(request, sink));
  return sink->wait();
}

}  // namespace

PhaseTimes measure_phases(const LoadedModel& loaded, KvType type, const LimitModel& limits,
                          const MachineLimits& machine, const Progress& progress) {
  const BenchCase cases[] = {prefill_of(512), {.kind = BenchCase::Kind::kDecode, .n_tokens = 64}};
  BenchRunner runner(loaded, type, cases);
  runner.warm_up(cases[0]);
  PhaseTimes times;
  const auto measure = [&](const BenchCase& bench, std::vector<BenchResult>& results) {
    progress(fmt::format("{} of {}", test_name(bench), bench.n_tokens));
    results.push_back(runner.measure(bench, kRepeat));
    limits.hold_against(machine, results.back());
  };
  for (const BenchCase& bench : cases) measure(bench, times.bench);
  for (uint32_t n = 1; n <= 512; n *= 2) measure(prefill_of(n), times.rows);
  return times;
}

std::vector<TypeTime> measure_types(const LoadedModel& loaded, uint32_t depth,
                                    const Progress& progress) {
  const BenchCase bench{
      .kind = BenchCase::Kind::kDecode, .n_tokens = 16, .depth = depth, .fill = true};
  std::vector<TypeTime> times;
  for (const KvType type : kAllKvTypes) {
    progress(fmt::format("{} pages at depth {}", name_of(type), depth));
    BenchRunner runner(loaded, type, std::span(&bench, 1));
    runner.run(bench, 0);  // fills the KV cache
    times.push_back({type, runner.measure(bench, kTypeRepeat), runner.page_bytes() / kPageTokens});
  }
  return times;
}

std::vector<ShapeTime> measure_shapes(const LoadedModel& loaded, KvType type, uint32_t depth,
                                      const Progress& progress) {
  const ModelConfig& config = loaded.model->config();
  std::vector<ShapeTime> times;
  const auto measure = [&](const char* name, const AttentionCase& probe, uint32_t window) {
    progress(fmt::format("attention: {}", name));
    times.push_back({.name = name,
                     .n_kv_heads = probe.kv.n_kv_heads,
                     .window = window,
                     .ms = time_attention(*loaded.backend, probe),
                     .kv_bytes = needed_bytes(*loaded.backend, probe)});
  };
  const AttentionCase unchanged_tensor = attention_of(config, type, depth);
  measure("as it is", unchanged_tensor, 0);
  AttentionCase other = unchanged_tensor;
  other.kv.n_kv_heads = config.attention().n_heads;
  measure("a KV head for each query head", other, 0);
  other.kv.n_kv_heads = 1;
  measure("one KV head", other, 0);
  other = unchanged_tensor;
  const uint32_t window = std::max(kPageTokens, depth / 4);
  std::ranges::fill(other.windows, window);
  measure("a window", other, window);
  return times;
}

Result<SharingTime> measure_sharing(ServiceApi& service, uint32_t n_shared, uint32_t n_own) {
  SharingTime times;
  times.n_shared = n_shared;
  times.n_own = n_own;
  std::mt19937_64 random(1);
  const auto tokens = [&](uint32_t n) {
    std::vector<TokenId> ids;
    for (uint32_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<TokenId>(random() % service.card().n_vocab));
    }
    return ids;
  };
  const auto joined = [](std::vector<TokenId> ids, const std::vector<TokenId>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  std::vector<double> first, second;
  for (uint32_t i = 0; i < kRepeat; ++i) {
    const std::string salt = fmt::format("sharing {}", i);
    const std::vector<TokenId> shared = tokens(n_shared);
    TRY_ASSIGN(const Usage a, first_token(service, joined(shared, tokens(n_own)), salt));
    TRY_ASSIGN(const Usage b, first_token(service, joined(shared, tokens(n_own)), salt));
    first.push_back(to_ms(a.ttft));
    second.push_back(to_ms(b.ttft));
    times.n_found = b.cached_tokens;
  }
  times.first_ttft_ms = spread_of(std::move(first));
  times.second_ttft_ms = spread_of(std::move(second));
  return times;
}

MemoryTable memory_table(const Footprint& footprint, uint64_t n_ctx) {
  MemoryTable table{.machine_bytes = machine_memory_bytes().value_or(0),
                    .available_bytes = available_memory_bytes().value_or(0),
                    .weights_bytes = footprint.weights().n_bytes,
                    .buffers_bytes = footprint.plan(KvType::kInt8, n_ctx, 0).buffers_bytes(),
                    .contexts = {},
                    .rows = {}};
  for (const uint64_t n : {n_ctx / 8, n_ctx / 4, n_ctx / 2, n_ctx}) {
    if (n > 0) table.contexts.push_back(n);
  }
  for (const KvType type : kAllKvTypes) {
    const KvFootprint kv = footprint.kv(type);
    MemoryRow row{.type = type,
                  .bytes_per_token = kv.page_bytes() / kPageTokens,
                  .bytes = {},
                  .longest_context = footprint.longest_context(type, table.machine_bytes),
                  .users_that_fit = footprint.users_in(type, n_ctx, table.machine_bytes)};
    for (const uint64_t n : table.contexts) {
      row.bytes.push_back(kv.bytes_at_once(n) + kv.layout.open_slot_bytes());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

uint32_t probe_depth(const LoadedModel& loaded) {
  const ModelConfig& config = loaded.model->config();
  const uint64_t free_bytes = available_memory_bytes().value_or(UINT64_MAX);
  uint32_t depth = std::clamp(config.n_ctx_train, 2 * kPageTokens, 4096u);
  const auto widest = [&] {
    AttentionCase probe = attention_of(config, KvType::kF32, depth);
    const uint64_t as_f32 = bytes_of(*loaded.backend, probe);
    probe.kv.type = KvType::kInt8;
    probe.kv.n_kv_heads = config.attention().n_heads;
    return std::max(as_f32, bytes_of(*loaded.backend, probe));
  };
  while (depth > 2 * kPageTokens && widest() > free_bytes / 4) depth /= 2;
  return depth;
}

}  // namespace kvik
