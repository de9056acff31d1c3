// Row kernels of kernels.h. Included inside the namespace of an instruction set, after its vector
// functions. The bits of an element do not depend on its position in the row, because the end of a
// row has the same operations on fewer lanes.

#include "backend/cpu/isa/vec_math.inl"

namespace {

// The lanes of a step: all sixteen, or the first n at the end of a row.
struct AllLanes {
  F32x16 read(const float* p) const { return load(p); }
  void write(float* p, F32x16 v) const { store(p, v); }
};
struct FirstLanes {
  uint32_t n;
  F32x16 read(const float* p) const { return load_first(p, n); }
  void write(float* p, F32x16 v) const { store_first(p, v, n); }
};

// Calls step(i, lanes) for i = 0, 16, … below n.
template <class Step>
inline void each_16(uint32_t n, Step step) {
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(i, AllLanes{});
  if (i < n) step(i, FirstLanes{n - i});
}

inline float dot_row(const float* x, const float* y, uint32_t n) {
  F32x16 sum = zero();
  each_16(n, [&](uint32_t i, auto lanes) { sum = fma(lanes.read(x + i), lanes.read(y + i), sum); });
  return sum_lanes(sum);
}

inline float mean_square_row(const float* x, uint32_t n) {
  return dot_row(x, x, n) / static_cast<float>(n);
}

inline void rms_norm_row(const float* x, const float* weight, uint32_t n, float eps, float* out) {
  const float mean = mean_square_row(x, n);
  const F32x16 factor = set1(1.0f / __builtin_sqrtf(mean + eps));
  each_16(n, [&](uint32_t i, auto lanes) {
    lanes.write(out + i, mul(mul(lanes.read(x + i), factor), lanes.read(weight + i)));
  });
}

// Leaves x − mean in `out` first, where the second sum reads it: lanes beyond the end stay zero.
inline void layer_norm_row(const float* x, const float* weight, const float* bias, uint32_t n,
                           float eps, float* out) {
  F32x16 sum = zero();
  each_16(n, [&](uint32_t i, auto lanes) { sum = add(sum, lanes.read(x + i)); });
  const F32x16 mean = set1(sum_lanes(sum) / static_cast<float>(n));
  each_16(n, [&](uint32_t i, auto lanes) { lanes.write(out + i, sub(lanes.read(x + i), mean)); });
  const float variance = mean_square_row(out, n);
  const F32x16 factor = set1(1.0f / __builtin_sqrtf(variance + eps));
  each_16(n, [&](uint32_t i, auto lanes) {
    const F32x16 v = mul(mul(lanes.read(out + i), factor), lanes.read(weight + i));
    lanes.write(out + i, bias ? add(v, lanes.read(bias + i)) : v);
  });
}

inline void add_row(float* x, const float* y, uint32_t n) {
  each_16(n, [&](uint32_t i, auto lanes) {
    lanes.write(x + i, add(lanes.read(x + i), lanes.read(y + i)));
  });
}

inline void add_scaled_row(float* x, const float* y, float factor, uint32_t n) {
  each_16(n, [&](uint32_t i, auto lanes) {
    lanes.write(x + i, fma(lanes.read(y + i), set1(factor), lanes.read(x + i)));
  });
}

inline void scale_row(float* x, float factor, uint32_t n) {
  each_16(
      n, [&](uint32_t i, auto lanes) { lanes.write(x + i, mul(lanes.read(x + i), set1(factor))); });
}

inline void soft_cap_row(float* x, float cap, uint32_t n) {
  each_16(n, [&](uint32_t i, auto lanes) {
    lanes.write(x + i, soft_capped(lanes.read(x + i), set1(cap)));
  });
}

// Returns x / (1 + e^-x).
inline F32x16 silu(F32x16 x) {
  const F32x16 e = exp(sub(zero(), x));
  return div(x, add(set1(1.0f), e));
}

// Returns x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks and Gimpel 2016).
inline F32x16 gelu_tanh(F32x16 x) {
  const F32x16 cube = mul(mul(x, x), x);
  const F32x16 inner = mul(set1(0x1.988454p-1f), fma(set1(0.044715f), cube, x));
  return mul(mul(set1(0.5f), x), add(set1(1.0f), tanh(inner)));
}

// Returns x · Φ(x) = max(x, 0) − |x| · Φ(−|x|), with Φ(−a) = e^(−a²/2) · t · p(t) and t = 1 / (1 +
// c a). p is a polynomial of degree 8, fitted to erfcx(a / √2) / 2t with a relative error
// of 2.3e-8.
inline F32x16 gelu(F32x16 x) {
  const F32x16 a = max(x, sub(zero(), x));
  const F32x16 t = div(set1(1.0f), fma(set1(0x1.fadaa8p-3f), a, set1(1.0f)));
  F32x16 p = fma(set1(0x1.e468cap-6f), t, set1(-0x1.6eae9p-3f));
  p = fma(p, t, set1(0x1.7851c4p-2f));
  p = fma(p, t, set1(-0x1.2ea81p-2f));
  p = fma(p, t, set1(0x1.13f654p-2f));
  p = fma(p, t, set1(0x1.7e0fbcp-10f));
  p = fma(p, t, set1(0x1.c8bb5p-4f));
  p = fma(p, t, set1(0x1.8a0bccp-4f));
  p = fma(p, t, set1(0x1.950372p-4f));
  const F32x16 tail = mul(mul(p, t), exp(mul(mul(set1(-0.5f), a), a)));
  return sub(max(x, zero()), mul(a, tail));
}

// Returns x · sigmoid(1.702 x) · (y + 1), with x = min(gate, 7) and y = up clamped to ±7.
inline F32x16 clamped_swish(F32x16 gate, F32x16 up) {
  const F32x16 limit = set1(7.0f);
  const F32x16 x = min(gate, limit);
  const F32x16 y = min(max(up, sub(zero(), limit)), limit);
  const F32x16 e = exp(mul(set1(-1.702f), x));
  return mul(div(x, add(set1(1.0f), e)), add(y, set1(1.0f)));
}

inline void gated_activation_row(Activation activation, const float* gate, const float* up,
                                 uint32_t n, float* out) {
  switch (activation) {
    case Activation::kSilu:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, mul(silu(lanes.read(gate + i)), lanes.read(up + i)));
      });
    case Activation::kGeluTanh:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, mul(gelu_tanh(lanes.read(gate + i)), lanes.read(up + i)));
      });
    case Activation::kClampedSwish:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, clamped_swish(lanes.read(gate + i), lanes.read(up + i)));
      });
    case Activation::kNone:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, mul(lanes.read(gate + i), lanes.read(up + i)));
      });
    case Activation::kSigmoid:
      return each_16(n, [&](uint32_t i, auto lanes) {
        const F32x16 e = exp(sub(zero(), lanes.read(gate + i)));
        lanes.write(out + i, div(lanes.read(up + i), add(set1(1.0f), e)));
      });
    case Activation::kReluSquared:
      return each_16(n, [&](uint32_t i, auto lanes) {
        const F32x16 x = max(lanes.read(gate + i), zero());
        lanes.write(out + i, mul(x, x));
      });
    case Activation::kGelu:
      return each_16(
          n, [&](uint32_t i, auto lanes) { lanes.write(out + i, gelu(lanes.read(gate + i))); });
    case Activation::kPlainGeluTanh:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, gelu_tanh(lanes.read(gate + i)));
      });
    case Activation::kGatedGelu:
      return each_16(n, [&](uint32_t i, auto lanes) {
        lanes.write(out + i, mul(gelu(lanes.read(gate + i)), lanes.read(up + i)));
      });
    case Activation::kXielu:
      return;  // xielu_row()
  }
}

inline void limited_silu_row(const float* gate, const float* up, float limit, uint32_t n,
                             float* out) {
  const F32x16 most = set1(limit);
  const F32x16 least = sub(zero(), most);
  each_16(n, [&](uint32_t i, auto lanes) {
    const F32x16 x = min(silu(lanes.read(gate + i)), most);
    lanes.write(out + i, mul(x, min(max(lanes.read(up + i), least), most)));
  });
}

inline void xielu_row(float* x, const Xielu& p, uint32_t n) {
  each_16(n, [&](uint32_t i, auto lanes) {
    const F32x16 v = lanes.read(x + i);
    const F32x16 positive = mul(mul(set1(p.positive), v), v);
    const F32x16 negative =
        mul(set1(p.negative), sub(exp_minus_1(min(v, min(set1(p.limit), zero()))), v));
    const F32x16 curved = select_ge(zero(), v, negative, positive);
    lanes.write(x + i, fma(set1(p.linear), v, curved));
  });
}

// Leaves x − mean in x first, as layer_norm_row does.
inline void cut_off_row(float* x, float cutoff, uint32_t n) {
  F32x16 sum = zero();
  each_16(n, [&](uint32_t i, auto lanes) { sum = add(sum, lanes.read(x + i)); });
  const F32x16 mean = set1(sum_lanes(sum) / static_cast<float>(n));
  each_16(n, [&](uint32_t i, auto lanes) { lanes.write(x + i, sub(lanes.read(x + i), mean)); });
  const F32x16 cut = set1(cutoff * __builtin_sqrtf(mean_square_row(x, n)));
  each_16(n, [&](uint32_t i, auto lanes) {
    lanes.write(x + i, max(sub(lanes.read(x + i), cut), zero()));
  });
}

// Rotates (a, b) by the angle whose cosine and sine are (c, s). Each product and sum is rounded
// separately.
struct RotatedPair {
  F32x16 a, b;
};
inline RotatedPair turn(F32x16 a, F32x16 b, F32x16 c, F32x16 s) {
  return {sub(mul(a, c), mul(b, s)), add(mul(a, s), mul(b, c))};
}

inline void rope_halves(float* head, const float* cos, const float* sin, uint32_t n_pairs) {
  each_16(n_pairs, [&](uint32_t i, auto lanes) {
    const RotatedPair rotated = turn(lanes.read(head + i), lanes.read(head + n_pairs + i),
                                     lanes.read(cos + i), lanes.read(sin + i));
    lanes.write(head + i, rotated.a);
    lanes.write(head + n_pairs + i, rotated.b);
  });
}

inline void rope_interleaved(float* head, const float* cos, const float* sin, uint32_t n_pairs) {
  for (uint32_t i = 0; i < n_pairs; i += kLanes) {
    const uint32_t n = n_pairs - i < kLanes ? n_pairs - i : kLanes;
    const uint32_t n_low = 2 * n < kLanes ? 2 * n : kLanes;
    const uint32_t n_high = 2 * n - n_low;
    float* low_at = head + 2 * i;
    float* high_at = low_at + n_low;  // past the head if n_high is 0, then not accessed
    const F32x16 low = load_first(low_at, n_low);
    const F32x16 high = load_first(high_at, n_high);
    const RotatedPair rotated = turn(even_lanes(low, high), odd_lanes(low, high),
                                     load_first(cos + i, n), load_first(sin + i, n));
    store_first(low_at, interleave_low(rotated.a, rotated.b), n_low);
    store_first(high_at, interleave_high(rotated.a, rotated.b), n_high);
  }
}

inline void rope_head(float* head, RopePairing pairing, const float* cos, const float* sin,
                      uint32_t n_pairs) {
  if (pairing == RopePairing::kHalves) {
    rope_halves(head, cos, sin, n_pairs);
  } else {
    rope_interleaved(head, cos, sin, n_pairs);
  }
}

}  // namespace

const RowKernels kRowKernels = {
    .rms_norm = rms_norm_row,
    .layer_norm = layer_norm_row,
    .add = add_row,
    .add_scaled = add_scaled_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .gated_activation = gated_activation_row,
    .limited_silu = limited_silu_row,
    .xielu = xielu_row,
    .mean_square = mean_square_row,
    .dot = dot_row,
    .cut_off = cut_off_row,
    .rope = rope_head,
};
