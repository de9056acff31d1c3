// Kernels of state_kernels.h. Included inside the namespace of an instruction set, after its vector
// functions.

#include "backend/cpu/isa/vec_math.inl"

namespace {

// Sums over the channels of a key have two chains, one of the even and one of the odd channels,
// each in ascending order. In a narrow block, a single chain would be limited by its latency.
template <uint32_t kVectors>
struct Chains {
  F32x16 even[kVectors], odd[kVectors];

  Chains() {
    for (uint32_t j = 0; j < kVectors; ++j) even[j] = odd[j] = zero();
  }
  F32x16 total(uint32_t vector) const { return add(even[vector], odd[vector]); }
};

struct Even {
  template <uint32_t kVectors>
  F32x16* of(Chains<kVectors>& chains) const {
    return chains.even;
  }
};
struct Odd {
  template <uint32_t kVectors>
  F32x16* of(Chains<kVectors>& chains) const {
    return chains.odd;
  }
};

// One token's values for a block of 16 · kVectors columns.
template <uint32_t kVectors>
struct Token {
  const float *q, *k, *decays;
  F32x16 decay;            // the first
  F32x16 delta[kVectors];  // correction, by which the outer product with the key is multiplied

  Token(const RecurrenceTask& task, size_t t)
      : q(task.q + t * task.qk_step),
        k(task.k + t * task.qk_step),
        decays(task.decay + t * task.decay_step),
        decay(set1(*decays)) {}

  void set_delta(const RecurrenceTask& task, size_t t, const Chains<kVectors>& retrieved) {
    const F32x16 rate = set1(task.rate[t * task.rate_step]);
    for (uint32_t j = 0; j < kVectors; ++j) {
      delta[j] = mul(sub(load(task.v + t * task.v_step + j * kLanes), retrieved.total(j)), rate);
    }
  }
};

// Number of tokens by which prefetches are ahead. Hardware prefetchers do not follow consecutive
// tokens, which are a whole row apart, and processing one token takes less time than a memory
// access.
constexpr size_t kTokensAhead = 3;

template <uint32_t kVectors>
inline void prefetch_token(const RecurrenceTask& task, size_t t) {
  for (uint32_t i = 0; i < task.key_dim; i += kLanes) {
    __builtin_prefetch(task.q + t * task.qk_step + i);
    __builtin_prefetch(task.k + t * task.qk_step + i);
  }
  for (uint32_t j = 0; j < kVectors; ++j) {
    __builtin_prefetch(task.v + t * task.v_step + j * kLanes);
  }
}

template <uint32_t kVectors>
inline void store_out(const RecurrenceTask& task, size_t t, const Chains<kVectors>& out) {
  for (uint32_t j = 0; j < kVectors; ++j) {
    store(task.out + t * task.out_step + j * kLanes, out.total(j));
  }
}

// Multiplies a row of the matrix by the decay, which is that of the head or of this channel of its
// key, and adds its product with the token's key to `retrieved`.
template <bool kByKey, uint32_t kVectors>
inline void decay_row(F32x16* row, const Token<kVectors>& token, uint32_t i, F32x16* retrieved) {
  const F32x16 key = set1(token.k[i]);
  const F32x16 decay = kByKey ? set1(token.decays[i]) : token.decay;
  for (uint32_t j = 0; j < kVectors; ++j) {
    row[j] = mul(row[j], decay);
    retrieved[j] = fma(row[j], key, retrieved[j]);
  }
}

// Corrects a row of the matrix, and adds its product with the token's query to `out`.
template <uint32_t kVectors>
inline void correct_row(F32x16* row, const Token<kVectors>& token, uint32_t i, F32x16* out) {
  const F32x16 key = set1(token.k[i]);
  const F32x16 query = set1(token.q[i]);
  for (uint32_t j = 0; j < kVectors; ++j) {
    row[j] = fma(key, token.delta[j], row[j]);
    out[j] = fma(row[j], query, out[j]);
  }
}

// Applies a step to each row of the block in turn. The block's position and size are copied first;
// otherwise they would be loaded again after each store.
template <uint32_t kVectors, class Step>
inline void each_row(const RecurrenceTask& task, const Step& step) {
  float* at = task.matrix;
  const auto apply = [&](uint32_t i, auto chain) {
    F32x16 row[kVectors];
    for (uint32_t j = 0; j < kVectors; ++j) row[j] = load(at + j * kLanes);
    step(i, row, chain);
    for (uint32_t j = 0; j < kVectors; ++j) store(at + j * kLanes, row[j]);
    at += kVectors * kLanes;
  };
  const uint32_t n_rows = task.key_dim;
  for (uint32_t i = 0; i < n_rows; i += 2) {
    apply(i, Even{});
    apply(i + 1, Odd{});
  }
}

// Applies the delta rule to all tokens. The last step of a token and the first step of the next one
// share a pass over the block.
template <bool kByKey, uint32_t kVectors>
inline void pass_delta(const RecurrenceTask& task) {
  Token<kVectors> token(task, 0);
  Chains<kVectors> retrieved;
  each_row<kVectors>(task, [&](uint32_t i, F32x16* row, auto chain) {
    decay_row<kByKey>(row, token, i, chain.of(retrieved));
  });
  token.set_delta(task, 0, retrieved);
  for (size_t t = 1; t < task.n_tokens; ++t) {
    Token<kVectors> next(task, t);
    prefetch_token<kVectors>(task, t + kTokensAhead);
    Chains<kVectors> out, next_retrieved;
    each_row<kVectors>(task, [&](uint32_t i, F32x16* row, auto chain) {
      correct_row(row, token, i, chain.of(out));
      decay_row<kByKey>(row, next, i, chain.of(next_retrieved));
    });
    store_out(task, t - 1, out);
    next.set_delta(task, t, next_retrieved);
    token = next;
  }
  Chains<kVectors> out;
  each_row<kVectors>(task, [&](uint32_t i, F32x16* row, auto chain) {
    correct_row(row, token, i, chain.of(out));
  });
  store_out(task, task.n_tokens - 1, out);
}

template <bool kByKey>
void delta_rule(const RecurrenceTask& task) {
  if (task.n_columns == kStateColumns) {
    pass_delta<kByKey, 2>(task);
  } else {
    pass_delta<kByKey, 1>(task);
  }
}

// Applies the state-space recurrence to all tokens.
template <uint32_t kVectors>
inline void pass_space(const RecurrenceTask& task) {
  for (size_t t = 0; t < task.n_tokens; ++t) {
    Token<kVectors> token(task, t);
    const float* v = task.v + t * task.v_step;
    const F32x16 rate = set1(task.rate[t * task.rate_step]);
    for (uint32_t j = 0; j < kVectors; ++j) token.delta[j] = mul(load(v + j * kLanes), rate);
    Chains<kVectors> out;
    each_row<kVectors>(task, [&](uint32_t i, F32x16* row, auto chain) {
      for (uint32_t j = 0; j < kVectors; ++j) row[j] = mul(row[j], token.decay);
      correct_row(row, token, i, chain.of(out));
    });
    for (uint32_t j = 0; j < kVectors; ++j) {
      const F32x16 skipped = fma(set1(task.skip), load(v + j * kLanes), out.total(j));
      store(task.out + t * task.out_step + j * kLanes, skipped);
    }
  }
}

void state_space(const RecurrenceTask& task) {
  if (task.n_columns == kStateColumns) {
    pass_space<2>(task);
  } else {
    pass_space<1>(task);
  }
}

// Advances 16 channels at a time. Their states stay in the first-level cache.
void selective_scan(const ScanTask& given) {
  const ScanTask task = given;  // stores to rows cannot alias this copy
  for (uint32_t t = 0; t < task.n_tokens; ++t) {
    float* steps = task.steps + t * task.steps_step;
    for (uint32_t i = 0; i < task.n_channels; ++i) {
      steps[i] = static_cast<float>(exact_softplus(double{steps[i]} + double{task.biases[i]}));
    }
  }
  for (uint32_t first = 0; first < task.n_channels; first += kLanes) {
    F32x16 state[kMaxScanState];
    for (uint32_t n = 0; n < task.state_dim; ++n) {
      state[n] = load(task.state + n * task.channel_step + first);
    }
    const auto keep = [&] {
      for (uint32_t n = 0; n < task.state_dim; ++n) {
        store(task.state + n * task.channel_step + first, state[n]);
      }
    };
    for (uint32_t t = 0; t < task.n_tokens; ++t) {
      if (t == task.n_kept) keep();
      const float* b = task.b + t * task.b_step;
      const float* c = task.c + t * task.c_step;
      const F32x16 step = load(task.steps + t * task.steps_step + first);
      const F32x16 x = load(task.x + t * task.x_step + first);
      const F32x16 added = mul(step, x);
      F32x16 out = mul(load(task.skips + first), x);
      for (uint32_t n = 0; n < task.state_dim; ++n) {
        const F32x16 factor = load(task.factors + n * task.channel_step + first);
        state[n] = fma(exp(mul(step, factor)), state[n], mul(set1(b[n]), added));
        out = fma(set1(c[n]), state[n], out);
      }
      store(task.out + t * task.out_step + first, out);
    }
    if (task.n_kept == task.n_tokens) keep();
  }
}

// Returns channels [first, first + n) of the input at row `row`, n ≤ 16. Rows below 0 come from the
// state.
inline F32x16 input_of(const ConvTask& task, int64_t row, uint32_t first, uint32_t n) {
  const float* p =
      row < 0 ? task.state + static_cast<size_t>(row + task.kernel_size - 1) * task.channel_step
              : task.x + static_cast<size_t>(row) * task.x_step;
  return load_first(p + first, n);
}

// Computes rows [t, t + kRows). Their sums are independent.
template <uint32_t kRows>
inline void convolve(const ConvTask& task, uint32_t t, uint32_t first, uint32_t n) {
  F32x16 sums[kRows];
  for (F32x16& sum : sums) sum = task.bias ? load_first(task.bias + first, n) : zero();
  for (uint32_t i = 0; i < task.kernel_size; ++i) {
    const F32x16 conv_weight = load_first(task.conv_weights + i * task.channel_step + first, n);
    const int64_t row = int64_t{t} + i - (task.kernel_size - 1);
    for (uint32_t r = 0; r < kRows; ++r) {
      sums[r] = fma(conv_weight, input_of(task, row + r, first, n), sums[r]);
    }
  }
  if (task.is_activated) {
    for (F32x16& sum : sums) sum = div(sum, add(set1(1.0f), exp(sub(zero(), sum))));
  }
  for (uint32_t r = 0; r < kRows; ++r) {
    store_first(task.out + size_t{t + r} * task.out_step + first, sums[r], n);
  }
}

// Stores the newest inputs in the state, from the oldest on, because each place is filled from a
// later one.
inline void keep_inputs(const ConvTask& task, uint32_t first, uint32_t n) {
  for (uint32_t i = 0; i + 1 < task.kernel_size; ++i) {
    const F32x16 newer =
        input_of(task, int64_t{task.n_kept} + i - (task.kernel_size - 1), first, n);
    store_first(task.state + i * task.channel_step + first, newer, n);
  }
}

// Processes several rows together, in the order in which they are in memory. Prefetches the rows
// after them, because hardware prefetchers do not continue from the end of a piece to the next row.
void short_conv(const ConvTask& given) {
  const ConvTask task = given;  // stores to rows cannot alias this copy
  constexpr uint32_t kRows = 4;
  const auto each_vector = [&](const auto& body) {
    uint32_t first = 0;
    for (; first + kLanes <= task.n_channels; first += kLanes) body(first, uint32_t{kLanes});
    if (first < task.n_channels) body(first, task.n_channels - first);
  };
  uint32_t t = 0;
  for (; t + kRows <= task.n_tokens; t += kRows) {
    each_vector([&](uint32_t first, uint32_t n) {
      for (uint32_t r = 0; r < kRows; ++r) {
        __builtin_prefetch(task.x + size_t{t + kRows + r} * task.x_step + first);
      }
      convolve<kRows>(task, t, first, n);
    });
  }
  for (; t < task.n_tokens; ++t) {
    each_vector([&](uint32_t first, uint32_t n) { convolve<1>(task, t, first, n); });
  }
  each_vector([&](uint32_t first, uint32_t n) { keep_inputs(task, first, n); });
}

void l2_norm(const float* x, float* out, uint32_t n, float eps, float scale) {
  F32x16 squares = zero();
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F32x16 v = load_first(x + i, n - i < kLanes ? n - i : kLanes);
    squares = fma(v, v, squares);
  }
  const F32x16 factor = set1(scale / __builtin_sqrtf(sum_lanes(squares) + eps));
  for (uint32_t i = 0; i < n; i += kLanes) {
    const uint32_t n_left = n - i < kLanes ? n - i : kLanes;
    store_first(out + i, mul(load_first(x + i, n_left), factor), n_left);
  }
}

// These functions are plain loops, which the compiler vectorizes over heads.
void gates(const GateTask& given) {
  const GateTask task = given;
  for (uint32_t i = 0; i < task.n_heads; ++i) {
    const double step = exact_softplus(double{task.a[i]} + double{task.biases[i]});
    task.a[i] = static_cast<float>(exact_exp(double{task.factors[i]} * step));
    task.b[i] = static_cast<float>(exact_sigmoid(double{task.b[i]}));
  }
}

void steps(const GateTask& given) {
  const GateTask task = given;
  for (uint32_t i = 0; i < task.n_heads; ++i) {
    const double step = exact_softplus(double{task.a[i]} + double{task.biases[i]});
    task.a[i] = static_cast<float>(step);
    task.b[i] = static_cast<float>(exact_exp(double{task.factors[i]} * step));
  }
}

void bounded_decays(const GateTask& given) {
  const GateTask task = given;
  for (uint32_t i = 0; i < task.n_heads; ++i) {
    const double input = double{task.a[i]} + double{task.biases[i]};
    const double share = exact_sigmoid(double{task.factors[i]} * input);
    task.b[i] = static_cast<float>(exact_exp(double{task.bound} * share));
  }
}

// Numbers of an entry (EntryShape) for sixteen channels. Without tokens, the maximum is so low that
// the first token's gate exceeds it and its exponential is 0.
struct EntrySums {
  F32x16 most, sum, weighted;

  static EntrySums none() { return {set1(-1e30f), zero(), zero()}; }
  static EntrySums load_from(const float* state, size_t step, uint32_t n) {
    return {load_first(state, n), load_first(state + step, n), load_first(state + 2 * step, n)};
  }
  void store_to(float* state, size_t step, uint32_t n) const {
    store_first(state, most, n);
    store_first(state + step, sum, n);
    store_first(state + 2 * step, weighted, n);
  }
  EntrySums with(F32x16 value, F32x16 gate) const {
    const F32x16 change = sub(gate, most);
    const F32x16 smaller = exp(sub(zero(), max(change, sub(zero(), change))));
    const F32x16 own = select_ge(gate, most, set1(1.0f), smaller);
    const F32x16 others = select_ge(gate, most, smaller, set1(1.0f));
    return {max(gate, most), fma(sum, others, own), fma(value, own, mul(weighted, others))};
  }
};

void compress(const CompressTask& t) {
  for (uint32_t i = 0; i < t.n_channels; i += kLanes) {
    const uint32_t n = t.n_channels - i < kLanes ? t.n_channels - i : kLanes;
    const auto gate = [&](const float* gates, const float* biases) {
      return add(load_first(gates + i, n), load_first(biases + i, n));
    };
    float* own_state = t.state + i;
    float* next_state = t.state + 3 * t.step + i;
    EntrySums own = EntrySums::none();
    if (!t.begins) {
      own = EntrySums::load_from(own_state, t.step, n);
    } else if (t.next_values && t.follows) {
      own = EntrySums::load_from(next_state, t.step, n);
    }
    own = own.with(load_first(t.values + i, n), gate(t.gates, t.biases));
    own.store_to(own_state, t.step, n);
    if (t.out) store_first(t.out + i, div(own.weighted, own.sum), n);
    if (!t.next_values) continue;
    EntrySums next = t.begins ? EntrySums::none() : EntrySums::load_from(next_state, t.step, n);
    next = next.with(load_first(t.next_values + i, n), gate(t.next_gates, t.next_biases));
    next.store_to(next_state, t.step, n);
  }
}

}  // namespace

const StateKernels kStateKernels = {
    .gates = gates,
    .steps = steps,
    .bounded_decays = bounded_decays,
    .delta_rule = delta_rule<false>,
    .key_delta_rule = delta_rule<true>,
    .state_space = state_space,
    .selective_scan = selective_scan,
    .short_conv = short_conv,
    .compress = compress,
    .l2_norm = l2_norm,
};
