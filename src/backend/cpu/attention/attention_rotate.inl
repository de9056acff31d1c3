// Rotation of heads before int4 quantization. Part of attention.inl.
//
// A Hadamard matrix distributes the value of one dimension over its block, so that no dimension is
// an outlier and sixteen levels suffice (QuaRot, Ashkboos et al. 2024). The matrix is symmetric
// and, up to a factor, its own inverse. Scores do not change if both queries and K are rotated.

constexpr uint32_t kMaxRotated = 512;
constexpr uint32_t kMaxHeadDim = 1024;  // the limit of the model reader

// Returns the number of dimensions that are rotated together: the largest power of two that divides
// head_dim, but at most kMaxRotated.
inline uint32_t rotated_dims(uint32_t head_dim) {
  return lesser(head_dim & (0u - head_dim), kMaxRotated);
}

// Returns the factor of a rotation: a power of two, so that it is exact. It is 1 to 1.42 times the
// factor that would preserve lengths.
inline float rotation_factor(uint32_t head_dim) {
  float factor = 1.0f;
  for (uint32_t n = rotated_dims(head_dim); n >= 4; n /= 4) factor *= 0.5f;
  return factor;
}

// Returns the factor by which two rotations multiply each value.
inline float double_rotation_factor(uint32_t head_dim) {
  const float factor = rotation_factor(head_dim);
  return factor * factor * static_cast<float>(rotated_dims(head_dim));
}

// Writes the sums of adjacent pairs of values, then their differences. n of these steps rotate 2^n
// values. They add in the same order as butterflies of growing stride.
inline void rotate_step(const float* x, uint32_t n, float* out) {
  if (n == kLanes) {
    const F32x16 all = load(x);
    const F32x16 even = even_lanes(all, all);
    const F32x16 odd = odd_lanes(all, all);
    return store(out, select_range(0, kLanes / 2, add(even, odd), sub(even, odd)));
  }
  for (uint32_t i = 0; i < n / 2; i += kLanes) {
    const F32x16 a = load(x + 2 * i);
    const F32x16 b = load(x + 2 * i + kLanes);
    const F32x16 even = even_lanes(a, b);
    const F32x16 odd = odd_lanes(a, b);
    store(out + i, add(even, odd));
    store(out + n / 2 + i, sub(even, odd));
  }
}

// Rotates fewer than sixteen values in place.
inline void rotate_few(float* x, uint32_t n) {
  for (uint32_t stride = 1; stride < n; stride *= 2) {
    for (uint32_t i = 0; i < n; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
}

// Returns the number of dimensions of V, and of the part of K that is rotated with it.
inline uint32_t rotated_value_dims(const KvBlockLayout& layout) { return layout.value_dim(); }

// out = x rotated block by block, times rotation_factor(). x, out: [head_dim], which must not
// overlap.
inline void rotate_head(const float* x, uint32_t head_dim, float* out) {
  const uint32_t n = rotated_dims(head_dim);
  const float factor = rotation_factor(head_dim);
  for (uint32_t begin = 0; begin < head_dim; begin += n) {
    float buffers[2][kMaxRotated];
    float* now = buffers[0];
    float* next = buffers[1];
    for (uint32_t i = 0; i < n; ++i) now[i] = x[begin + i] * factor;
    if (n < kLanes) {
      rotate_few(now, n);
    } else {
      for (uint32_t done = 1; done < n; done *= 2) {
        rotate_step(now, n, next);
        float* swapped = now;
        now = next;
        next = swapped;
      }
    }
    for (uint32_t i = 0; i < n; ++i) out[begin + i] = now[i];
  }
}

// Rotates the K of one token: the latent part and the rest separately. k, out: [head_dim]
inline void rotate_key(const KvBlockLayout& layout, const float* k, float* out) {
  const uint32_t first = layout.value_dim();
  rotate_head(k, first, out);
  if (first < layout.head_dim) rotate_head(k + first, layout.head_dim - first, out + first);
}

// Rotates a query like K. Scores must then be divided by double_rotation_factor() of the first
// part, so the second part is multiplied by the ratio of the two factors.
inline void rotate_query(const KvBlockLayout& layout, const float* q, float* out) {
  rotate_key(layout, q, out);
  const uint32_t first = layout.value_dim();
  if (first == layout.head_dim) return;
  const float ratio =
      double_rotation_factor(first) / double_rotation_factor(layout.head_dim - first);  // exact
  for (uint32_t d = first; d < layout.head_dim; ++d) out[d] *= ratio;
}

inline void change_basis(float* head, uint32_t head_dim, const float* centers, const float* factors,
                         HeadRotation rotation) {
  float changed[kMaxHeadDim];
  const float back =
      rotation == HeadRotation::kBack ? 1.0f / double_rotation_factor(head_dim) : 1.0f;
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    const uint32_t n = lesser(kLanes, head_dim - d);
    F32x16 x = load_first(head + d, n);
    if (centers) x = sub(x, load_first(centers + d, n));
    if (factors) x = mul(x, load_first(factors + d, n));
    store_first((rotation == HeadRotation::kNone ? head : changed) + d, mul(x, set1(back)), n);
  }
  if (rotation != HeadRotation::kNone) rotate_head(changed, head_dim, head);
}
