#include "study/explain/attention_probe.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/clock.h"
#include "kv/kv_layout.h"
#include "study/noise.h"

namespace kvik {
namespace {

constexpr size_t kMinTries = 9;
constexpr double kMinMs = 60;
constexpr size_t kMaxTries = 500;

// The pages of one sequence, which all contain the same noise, and its rows of queries and outputs.
class Probe {
 public:
  Probe(Backend& backend, const AttentionCase& probe)
      : backend_(backend),
        probe_(probe),
        q_dim_(probe.n_heads * probe.kv.head_dim),
        pages_(backend.memory().allocate(bytes_of(backend, probe))),
        q_(noise(backend.memory(), q_dim_, 1)),
        out_(backend.memory().allocate(q_dim_ * sizeof(float))) {
    const size_t page_bytes = backend.page_bytes(probe.kv);
    for (size_t at = 0; at < pages_.size(); at += page_bytes) table_.push_back(pages_.data() + at);
    fill_with_noise(backend, probe.kv, table_, 1);
  }

  double ms_of_a_token() {
    const KvRun last{.pages = table_, .first_position = probe_.depth - 1, .n_rows = 1};
    const TimePoint begin = SteadyClock().now();
    for (uint32_t layer = 0; layer < probe_.kv.n_layers; ++layer) {
      backend_.attention(
          {probe_.kv, layer, std::span(&last, 1)},
          {.n_heads = probe_.n_heads, .scale = probe_.scale, .window = probe_.windows[layer]},
          {q_.floats(), 1, q_dim_, q_dim_}, {out_.floats(), 1, q_dim_, q_dim_});
    }
    return to_ms(SteadyClock().now() - begin);
  }

 private:
  Backend& backend_;
  const AttentionCase& probe_;
  const uint32_t q_dim_;
  Buffer pages_;
  std::vector<std::byte*> table_;
  Buffer q_, out_;
};

}  // namespace

Spread spread_of(std::vector<double> values) {
  CHECK(!values.empty());
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

uint64_t bytes_of(const Backend& backend, const AttentionCase& probe) {
  return pages_for(probe.depth) * backend.page_bytes(probe.kv);
}

Spread time_attention(Backend& backend, const AttentionCase& attention) {
  CHECK(attention.windows.size() == attention.kv.n_layers && attention.depth > 0);
  Probe probe(backend, attention);
  probe.ms_of_a_token();  // touches buffers and wakes threads
  std::vector<double> tries;
  double all_ms = 0;
  while (tries.size() < kMinTries || (all_ms < kMinMs && tries.size() < kMaxTries)) {
    all_ms += tries.emplace_back(probe.ms_of_a_token());
  }
  // Drops the highest and lowest twentieth of the times, which other programs affect.
  std::ranges::sort(tries);
  const size_t n_out = tries.size() / 20;
  return {tries[tries.size() / 2], tries[n_out], tries[tries.size() - 1 - n_out]};
}

}  // namespace kvik
