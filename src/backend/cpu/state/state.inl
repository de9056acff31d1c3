// The kernels of state_kernels.h. Included inside an instruction set's namespace, after its
// vocabulary.

#include "backend/cpu/isa/vec_math.inl"

namespace {

// Sums over a key's channels have four chains: channel k belongs to chain k mod 4, each goes on in
// ascending k, and (0 + 1) + (2 + 3) is the sum. One chain alone would wait for itself.
constexpr uint32_t kChains = 4;

template <uint32_t kVectors>
struct Chains {
  F32x16 sums[kChains][kVectors];

  void clear() {
    for (auto& chain : sums) {
      for (F32x16& sum : chain) sum = zero();
    }
  }
  F32x16 total(uint32_t vector) const {
    return add(add(sums[0][vector], sums[1][vector]), add(sums[2][vector], sums[3][vector]));
  }
};

// One token passes a block of 16 · kVectors columns.
template <uint32_t kVectors>
inline void step_delta(float* matrix, uint32_t key_dim, const float* q, const float* k,
                       const float* v, float decay, float rate, float* out) {
  constexpr uint32_t kColumns = kVectors * kLanes;
  Chains<kVectors> chains;
  chains.clear();
  const F32x16 g = set1(decay);
  for (uint32_t i = 0; i < key_dim; i += kChains) {
    for (uint32_t chain = 0; chain < kChains; ++chain) {
      float* row = matrix + size_t{i + chain} * kColumns;
      const F32x16 key = set1(k[i + chain]);
      for (uint32_t j = 0; j < kVectors; ++j) {
        const F32x16 s = mul(load(row + j * kLanes), g);
        store(row + j * kLanes, s);
        chains.sums[chain][j] = fma(s, key, chains.sums[chain][j]);
      }
    }
  }
  F32x16 delta[kVectors];
  for (uint32_t j = 0; j < kVectors; ++j) {
    delta[j] = mul(sub(load(v + j * kLanes), chains.total(j)), set1(rate));
  }
  chains.clear();
  for (uint32_t i = 0; i < key_dim; i += kChains) {
    for (uint32_t chain = 0; chain < kChains; ++chain) {
      float* row = matrix + size_t{i + chain} * kColumns;
      const F32x16 key = set1(k[i + chain]);
      const F32x16 query = set1(q[i + chain]);
      for (uint32_t j = 0; j < kVectors; ++j) {
        const F32x16 s = fma(key, delta[j], load(row + j * kLanes));
        store(row + j * kLanes, s);
        chains.sums[chain][j] = fma(s, query, chains.sums[chain][j]);
      }
    }
  }
  for (uint32_t j = 0; j < kVectors; ++j) store(out + j * kLanes, chains.total(j));
}

template <uint32_t kVectors>
inline void pass_delta(const RecurrenceTask& task) {
  for (size_t t = 0; t < task.n_tokens; ++t) {
    step_delta<kVectors>(task.matrix, task.key_dim, task.q + t * task.qk_step,
                         task.k + t * task.qk_step, task.v + t * task.v_step,
                         task.decay[t * task.gate_step], task.rate[t * task.gate_step],
                         task.out + t * task.out_step);
  }
}

void delta_rule(const RecurrenceTask& task) {
  if (task.n_columns == kStateColumns) {
    pass_delta<2>(task);
  } else {
    pass_delta<1>(task);
  }
}

// Channels [first, first + n) of all rows, n ≤ 16. The earlier inputs of a row are the rows before
// it, or the state's where it has fewer.
inline void convolve(const ConvTask& task, uint32_t first, uint32_t n) {
  const uint32_t n_before = task.n_taps - 1;
  const auto input = [&](int64_t row) {
    const float* p = row < 0 ? task.state + static_cast<size_t>(row + n_before) * task.channel_step
                             : task.x + static_cast<size_t>(row) * task.x_step;
    return load_first(p + first, n);
  };
  for (uint32_t t = 0; t < task.n_tokens; ++t) {
    F32x16 sum = zero();
    for (uint32_t i = 0; i < task.n_taps; ++i) {
      const F32x16 tap = load_first(task.taps + i * task.channel_step + first, n);
      sum = fma(tap, input(int64_t{t} + i - n_before), sum);
    }
    if (task.is_activated) {
      const F32x16 e = exp(sub(zero(), sum));
      sum = div(sum, add(set1(1.0f), e));
    }
    store_first(task.out + size_t{t} * task.out_step + first, sum, n);
  }
  // From the oldest on: what a place gets lies behind it.
  for (uint32_t i = 0; i < n_before; ++i) {
    const F32x16 newer = input(int64_t{task.n_tokens} + i - n_before);
    store_first(task.state + i * task.channel_step + first, newer, n);
  }
}

void short_conv(const ConvTask& task) {
  for (uint32_t first = 0; first < task.n_channels; first += kLanes) {
    const uint32_t n = task.n_channels - first;
    convolve(task, first, n < kLanes ? n : kLanes);
  }
}

void l2_norm(float* x, uint32_t n, float eps, float scale) {
  F32x16 squares = zero();
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F32x16 v = load_first(x + i, n - i < kLanes ? n - i : kLanes);
    squares = fma(v, v, squares);
  }
  const F32x16 factor = set1(scale / __builtin_sqrtf(sum_lanes(squares) + eps));
  for (uint32_t i = 0; i < n; i += kLanes) {
    const uint32_t n_left = n - i < kLanes ? n - i : kLanes;
    store_first(x + i, mul(load_first(x + i, n_left), factor), n_left);
  }
}

}  // namespace

const StateKernels kStateKernels = {
    .delta_rule = delta_rule,
    .short_conv = short_conv,
    .l2_norm = l2_norm,
};
