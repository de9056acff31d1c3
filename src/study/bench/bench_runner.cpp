#include "study/bench/bench_runner.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/clock.h"
#include "model/recurrent/state_layout.h"
#include "study/noise.h"

namespace kvik {

namespace {

// Time between two calls of the watcher: short enough to follow changes of the machine's load, long
// enough to keep the caches warm most of the time.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(80);

uint32_t largest_batch(std::span<const BenchCase> cases) {
  uint32_t batch = 1;
  for (const BenchCase& bench : cases) batch = std::max(batch, bench.batch);
  return batch;
}

uint64_t max_pages(std::span<const BenchCase> cases) {
  uint64_t n = 1;
  for (const BenchCase& bench : cases) n = std::max(n, BenchRunner::n_pages(bench));
  return n;
}

// Returns the layout of the KV cache. Sliding-window layers keep all pages, because a sequence is
// rewound and continued. Recurrent states are not rewound: their contents do not affect the speed.
KvLayout layout_of(const Decoder& decoder, const ModelConfig& config, uint32_t n_lanes) {
  KvLayout layout(decoder.page_bytes(), std::vector<GroupRule>(decoder.groups().n_groups()));
  layout.state_bytes = state_layout(config).n_bytes();
  layout.n_states = n_lanes;
  layout.open_page_bytes = decoder.open_page_bytes();
  layout.n_open_slots = n_lanes;
  return layout;
}

}  // namespace

BenchRunner::BenchRunner(const LoadedModel& loaded, KvType kv_type,
                         std::span<const BenchCase> cases)
    : loaded_(loaded),
      kv_type_(kv_type),
      decoder_(*loaded.model, *loaded.backend, kv_type,
               std::max(kMaxStepTokens, largest_batch(cases))),
      kv_(loaded.backend->memory(),
          max_pages(cases) * decoder_.groups().n_groups() * decoder_.page_bytes(),
          layout_of(decoder_, loaded.model->config(), largest_batch(cases)), clock_) {}

uint64_t BenchRunner::n_pages(const BenchCase& bench) {
  return bench.batch * pages_for(uint64_t{bench.depth} + bench.n_tokens);
}

double BenchRunner::run(const BenchCase& bench, uint64_t seed, BenchWatcher* watcher) {
  if (!bench.fill || lanes_.size() != bench.batch) lanes_.clear();
  lanes_.resize(bench.batch);
  for (Lane& lane : lanes_)
    prepare(lane, bench, seed * 1000 + static_cast<uint64_t>(&lane - lanes_.data()));
  if (!bench.fill) prefill(bench.depth, OutputRows::kNone);

  taken_ = unwatched_ = {};
  watcher_ = watcher;
  if (watcher) watcher->between_steps({});
  if (bench.kind == BenchCase::Kind::kPrefill) {
    prefill(bench.depth + bench.n_tokens, OutputRows::kLast);
  } else {
    for (uint32_t i = 0; i < bench.n_tokens; ++i) {
      if (bench.use_cache) {
        step(1, OutputRows::kLast);
        continue;
      }
      for (Lane& lane : lanes_) lane.n_cached = 0;
      prefill(bench.depth + i + 1, OutputRows::kLast);
    }
  }
  if (watcher && unwatched_ > Duration{}) watcher->between_steps(unwatched_);
  watcher_ = nullptr;
  return 1e3 * bench.n_tokens * bench.batch / to_ms(taken_);
}

void BenchRunner::warm_up(BenchCase bench) {
  bench.n_tokens = std::min(bench.n_tokens, bench.kind == BenchCase::Kind::kPrefill ? 512u : 4u);
  bench.depth = 0;
  bench.batch = 1;
  bench.fill = false;
  run(bench, 0);
}

BenchResult BenchRunner::measure(const BenchCase& bench, uint32_t repeat, BenchWatcher* watcher) {
  std::vector<double> speeds;
  for (uint32_t i = 0; i < repeat; ++i) {
    speeds.push_back(run(bench, i + 1, watcher));
    if (watcher) watcher->after_run();
  }
  std::vector<double> sorted = speeds;
  std::ranges::sort(sorted);
  return {.bench = bench,
          .speeds = std::move(speeds),
          .median = sorted[sorted.size() / 2],
          .min = sorted.front(),
          .max = sorted.back(),
          .work = {},
          .limit = 0,
          .context_bytes = n_pages(bench) * page_bytes()};
}

void BenchRunner::prepare(Lane& lane, const BenchCase& bench, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint32_t n_all = bench.depth + bench.n_tokens;
  if (lane.n_filled != bench.depth || lane.table.n_groups() != kv_.layout().n_groups()) {
    lane = {.tokens = {}, .table = kv_.make_table()};
  }
  lane.tokens.clear();
  for (uint32_t i = 0; i < n_all; ++i) {
    lane.tokens.push_back(static_cast<TokenId>(random() % loaded_.model->config().n_vocab));
  }
  CHECK(kv_.grow(lane.table, n_all));
  if (!bench.fill) return;
  if (lane.n_filled == 0) fill(lane, bench.depth, seed);
  lane.n_filled = lane.n_cached = bench.depth;
}

void BenchRunner::fill(Lane& lane, uint32_t depth, uint64_t seed) {
  if (depth == 0) return;
  const LayerGroups groups = group_layers(loaded_.model->config());
  for (uint32_t g = 0; g < lane.table.n_groups(); ++g) {
    const auto pages = lane.table.addresses(g).first(pages_for(depth));
    fill_with_noise(*loaded_.backend, kv_geometry(groups, g, kv_type_), pages,
                    static_cast<uint32_t>(seed));
  }
}

void BenchRunner::prefill(uint32_t n_tokens, OutputRows want) {
  const auto share = std::max(1u, kMaxStepTokens / static_cast<uint32_t>(lanes_.size()));
  while (lanes_.front().n_cached < n_tokens) {
    const uint32_t n_new = std::min(share, n_tokens - lanes_.front().n_cached);
    const bool is_last = lanes_.front().n_cached + n_new == n_tokens;
    step(n_new, is_last ? want : OutputRows::kNone);
  }
}

void BenchRunner::step(uint32_t n_new, OutputRows want) {
  const TimePoint begin = clock_.now();
  std::vector<BatchSequence> batch;
  std::vector<std::span<std::byte* const>> tables;
  const uint32_t n_groups = kv_.layout().n_groups();
  for (const Lane& lane : lanes_) {
    for (uint32_t g = 0; g < n_groups; ++g) tables.push_back(lane.table.addresses(g));
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    batch.push_back({.tokens = std::span(lanes_[i].tokens).subspan(lanes_[i].n_cached, n_new),
                     .first_position = lanes_[i].n_cached,
                     .kv = {.groups = std::span(tables).subspan(i * n_groups, n_groups),
                            .state = lanes_[i].table.state(),
                            .open = lanes_[i].table.open_pages()},
                     .want = want,
                     .adapter = adapters_.empty() ? nullptr : adapters_[i % adapters_.size()].get(),
                     .earlier = std::span(lanes_[i].tokens).first(lanes_[i].n_cached)});
  }
  decoder_.forward(batch);
  for (size_t row = 0; row < decoder_.n_logits(); ++row) decoder_.logits(row);
  for (Lane& lane : lanes_) lane.n_cached += n_new;
  const Duration taken = clock_.now() - begin;
  taken_ += taken;
  unwatched_ += taken;
  if (!watcher_ || unwatched_ < kBetweenLooks) return;
  watcher_->between_steps(unwatched_);
  unwatched_ = {};
}

}  // namespace kvik
