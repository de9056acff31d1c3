#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"

namespace kvik {
namespace {

using testing::OwnedRows;
using testing::random_floats;
using testing::same_bytes;

std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

// Returns a backend for every instruction set of this machine, with one thread and with three.
std::vector<std::unique_ptr<Backend>> all_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string_view isa : cpu_isa_names()) {
    backends.push_back(backend_of(isa, 1));
    backends.push_back(backend_of(isa, 3));
  }
  return backends;
}

constexpr uint32_t kRows = 9;
constexpr uint32_t kCols = 4147;  // shared out among threads; no multiple of a vector or block

// Returns the rows that `operation(backend, x)` leaves in x, after checking that they are the same
// on every backend.
template <class Operation>
std::vector<float> result_everywhere(uint32_t n_rows, uint32_t n_cols, const Operation& operation) {
  std::vector<float> first;
  for (const auto& backend : all_backends()) {
    OwnedRows x(backend->memory(), n_rows, n_cols, random_floats(size_t{n_rows} * n_cols, 1));
    operation(*backend, x.rows);
    if (first.empty()) first = x.values();
    EXPECT_TRUE(same_bytes(first, x.values())) << backend->name();
  }
  return first;
}

TEST(Backend, additions_and_scales_touch_every_element_once) {
  const std::vector<float> x = random_floats(kRows * kCols, 1);
  const std::vector<float> y = random_floats(kRows * kCols, 2);
  const auto sum = result_everywhere(kRows, kCols, [&](Backend& backend, Rows rows) {
    OwnedRows other(backend.memory(), kRows, kCols, y);
    backend.add(rows, other.rows);
  });
  const auto biased = result_everywhere(
      kRows, kCols, [&](Backend& backend, Rows rows) { backend.add_bias(rows, y.data()); });
  const auto scaled = result_everywhere(
      kRows, kCols, [&](Backend& backend, Rows rows) { backend.scale(rows, 0.3f); });
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(sum[i], x[i] + y[i]);
    ASSERT_EQ(biased[i], x[i] + y[i % kCols]);
    ASSERT_EQ(scaled[i], x[i] * 0.3f);
  }
}

TEST(Backend, columns_of_some_rows_are_scaled) {
  const std::vector<float> x = random_floats(kRows * kCols, 1);
  const std::vector<float> factors = random_floats(kCols, 2);
  const std::vector<uint32_t> rows = {0, kRows - 1};
  const auto scaled = result_everywhere(kRows, kCols, [&](Backend& backend, Rows all) {
    backend.scale_columns(all, rows, factors.data());
  });
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_scaled = i / kCols == 0 || i / kCols == kRows - 1;
    ASSERT_EQ(scaled[i], is_scaled ? x[i] * factors[i % kCols] : x[i]) << i;
  }
}

TEST(Backend, a_soft_cap_bends_towards_the_cap) {
  const std::vector<float> x = random_floats(kRows * kCols, 1);
  const auto capped = result_everywhere(
      kRows, kCols, [&](Backend& backend, Rows rows) { backend.soft_cap(rows, 1.5f); });
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(capped[i], 1.5 * std::tanh(x[i] / 1.5), 1e-6);
  }
}

TEST(Backend, a_gated_activation_may_overwrite_its_gate) {
  const std::vector<float> gate = random_floats(kRows * kCols, 1);
  const std::vector<float> up = random_floats(kRows * kCols, 2);
  const auto got = result_everywhere(kRows, kCols, [&](Backend& backend, Rows rows) {
    OwnedRows other(backend.memory(), kRows, kCols, up);
    backend.gated_activation(Activation::kSilu, rows, other.rows, rows);
  });
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i];
    ASSERT_NEAR(got[i], x / (1 + std::exp(-x)) * up[i], 1e-5);
  }
}

TEST(Backend, a_norm_covers_whole_rows_or_each_group_of_columns_for_itself) {
  constexpr uint32_t kGroup = 60;
  const std::vector<float> x = random_floats(kRows * kGroup * 5, 1);
  const std::vector<float> weight = random_floats(kGroup * 5, 2);
  for (const uint32_t size : {kGroup, kGroup * 5}) {
    const auto got = result_everywhere(kRows, kGroup * 5, [&](Backend& backend, Rows rows) {
      backend.rms_norm(rows, weight.data(), size, 1e-5f, rows);
    });
    for (size_t begin = 0; begin < x.size(); begin += size) {
      double squares = 0;
      for (size_t i = 0; i < size; ++i) squares += double{x[begin + i]} * x[begin + i];
      for (size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(got[begin + i], x[begin + i] / std::sqrt(squares / size + 1e-5) * weight[i],
                    2e-5);
      }
    }
  }
}

TEST(Backend, rope_turns_each_head_by_the_angles_of_its_row) {
  constexpr uint32_t kHeadDim = 10, kPairs = 4, kHeads = 3;
  const std::vector<float> x = random_floats(kRows * kHeads * kHeadDim, 1);
  const std::vector<float> angle = random_floats(kRows * kPairs, 2);
  std::vector<float> cosines, sines;
  for (const float a : angle) {
    cosines.push_back(std::cos(a));
    sines.push_back(std::sin(a));
  }
  for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    const auto got = result_everywhere(kRows, kHeads * kHeadDim, [&](Backend& backend, Rows rows) {
      backend.rope(rows, kHeadDim, pairing, {cosines.data(), sines.data(), kPairs});
    });
    for (size_t head = 0; head < kRows * kHeads; ++head) {
      const float* before = x.data() + head * kHeadDim;
      const float* after = got.data() + head * kHeadDim;
      for (uint32_t i = 0; i < kPairs; ++i) {
        const bool near = pairing == RopePairing::kInterleaved;
        const uint32_t a = near ? 2 * i : i, b = near ? 2 * i + 1 : i + kPairs;
        const size_t at = head / kHeads * kPairs + i;
        ASSERT_NEAR(after[a], before[a] * cosines[at] - before[b] * sines[at], 1e-5);
        ASSERT_NEAR(after[b], before[b] * cosines[at] + before[a] * sines[at], 1e-5);
      }
      ASSERT_EQ(after[8], before[8]);
      ASSERT_EQ(after[9], before[9]);
    }
  }
}

// The input of attention: three sequences in one batch, two layers, grouped heads.
constexpr uint32_t kHeadDim = 20, kKvHeads = 2, kHeads = 6, kLayers = 2;

struct Sequence {
  uint32_t n_cached, n_new;  // tokens in pages before this batch, and in the batch
};
constexpr Sequence kSequences[] = {{0, 41}, {70, 1}, {31, 33}};
constexpr uint32_t kBatch = 75;

class AttentionBatch {
 public:
  AttentionBatch(Backend& backend, KvType type)
      : backend_(backend), geometry_{type, kLayers, kKvHeads, kHeadDim} {
    uint32_t first_row = 0;
    for (const Sequence& sequence : kSequences) {
      const size_t n_tokens = sequence.n_cached + sequence.n_new;
      const size_t n_pages = (n_tokens + kPageTokens - 1) / kPageTokens;
      for (size_t i = 0; i < n_pages; ++i) {
        pages_.push_back(backend.memory().allocate(backend.page_bytes(geometry_)));
      }
      tables_.emplace_back();
      for (size_t i = pages_.size() - n_pages; i < pages_.size(); ++i) {
        tables_.back().push_back(pages_[i].data());
      }
      keys_.push_back(random_floats(n_tokens * kKvHeads * kHeadDim, 10 + first_row));
      values_.push_back(random_floats(n_tokens * kKvHeads * kHeadDim, 500 + first_row));
      first_row += sequence.n_new;
    }
    fill_cached();
    run();
  }

  const std::vector<float>& out() const { return out_; }

  // Returns the same in double, computed directly from keys and values.
  double expected(size_t s, uint32_t token, uint32_t head, uint32_t d) const {
    const float* q = queries_.data() + (row_of(s, token) * kHeads + head) * kHeadDim;
    double total = 0, sum = 0;
    for (uint32_t t = 0; t <= token; ++t) {
      const size_t at = (t * kKvHeads + head / (kHeads / kKvHeads)) * kHeadDim;
      double score = 0;
      for (uint32_t i = 0; i < kHeadDim; ++i) score += double{q[i]} * keys_[s][at + i];
      const double weight = std::exp(0.25 * score);
      total += weight;
      sum += weight * values_[s][at + d];
    }
    return sum / total;
  }

  static size_t row_of(size_t s, uint32_t token) {
    size_t row = token - kSequences[s].n_cached;
    for (size_t i = 0; i < s; ++i) row += kSequences[i].n_new;
    return row;
  }

 private:
  // Returns K or V of tokens [begin, begin + n) of a sequence as rows.
  static std::vector<float> tokens(const std::vector<float>& all, uint32_t begin, uint32_t n) {
    const uint32_t width = kKvHeads * kHeadDim;
    return {all.begin() + begin * width, all.begin() + (begin + n) * width};
  }

  void fill_cached() {
    for (size_t s = 0; s < std::size(kSequences); ++s) {
      const uint32_t n = kSequences[s].n_cached;
      const KvRun run{tables_[s], 0, 0, n};
      OwnedRows k(backend_.memory(), n, kKvHeads * kHeadDim, tokens(keys_[s], 0, n));
      OwnedRows v(backend_.memory(), n, kKvHeads * kHeadDim, tokens(values_[s], 0, n));
      backend_.write_kv({geometry_, 1, {&run, 1}}, k.rows, v.rows);
    }
  }

  void run() {
    std::vector<KvRun> runs;
    std::vector<float> new_keys, new_values;
    uint32_t first_row = 0;
    for (size_t s = 0; s < std::size(kSequences); ++s) {
      const auto [n_cached, n_new] = kSequences[s];
      runs.push_back({tables_[s], n_cached, first_row, n_new});
      const auto k = tokens(keys_[s], n_cached, n_new);
      const auto v = tokens(values_[s], n_cached, n_new);
      new_keys.insert(new_keys.end(), k.begin(), k.end());
      new_values.insert(new_values.end(), v.begin(), v.end());
      first_row += n_new;
    }
    queries_ = random_floats(kBatch * kHeads * kHeadDim, 3);
    OwnedRows k(backend_.memory(), kBatch, kKvHeads * kHeadDim, new_keys);
    OwnedRows v(backend_.memory(), kBatch, kKvHeads * kHeadDim, new_values);
    OwnedRows q(backend_.memory(), kBatch, kHeads * kHeadDim, queries_);
    OwnedRows out(backend_.memory(), kBatch, kHeads * kHeadDim);
    const KvTarget target{geometry_, 1, runs};
    backend_.write_kv(target, k.rows, v.rows);
    backend_.attention(target, {.n_heads = kHeads, .scale = 0.25f}, q.rows, out.rows);
    out_ = out.values();
  }

  Backend& backend_;
  const KvGeometry geometry_;
  std::vector<Buffer> pages_;
  std::vector<std::vector<std::byte*>> tables_;  // by sequence
  std::vector<std::vector<float>> keys_, values_;
  std::vector<float> queries_, out_;
};

TEST(Backend, attention_reads_each_sequence_of_a_batch_from_its_own_pages) {
  const auto backend = backend_of("", 2);
  for (const KvType type : kAllKvTypes) {
    const AttentionBatch batch(*backend, type);
    for (size_t s = 0; s < std::size(kSequences); ++s) {
      const uint32_t end = kSequences[s].n_cached + kSequences[s].n_new;
      for (uint32_t token = kSequences[s].n_cached; token < end; ++token) {
        for (uint32_t head = 0; head < kHeads; ++head) {
          const size_t at = (AttentionBatch::row_of(s, token) * kHeads + head) * kHeadDim;
          ASSERT_NEAR(batch.out()[at + 19], batch.expected(s, token, head, 19),
                      type == KvType::kF32                ? 2e-5
                      : value_type(type) == KvType::kInt4 ? 0.5
                                                          : 3e-2)
              << name_of(type) << " sequence " << s << " token " << token << " head " << head;
        }
      }
    }
  }
}

TEST(Backend, attention_has_the_same_bits_on_all_instruction_sets_and_threads) {
  for (const KvType type : kAllKvTypes) {
    std::vector<float> first;
    for (const auto& backend : all_backends()) {
      const AttentionBatch batch(*backend, type);
      if (first.empty()) first = batch.out();
      EXPECT_TRUE(same_bytes(first, batch.out())) << backend->name();
    }
  }
}

// Attends the last rows of one sequence with one KV head to the whole sequence.
std::vector<float> attend_long(Backend& backend, KvType type, uint32_t window, uint32_t n_rows) {
  constexpr uint32_t kTokens = 17'000;
  const KvGeometry geometry{.type = type, .n_layers = 1, .n_kv_heads = 1, .head_dim = 16};
  std::vector<Buffer> buffers;
  std::vector<std::byte*> pages;
  for (uint32_t first = 0; first < kTokens; first += kPageTokens) {
    buffers.push_back(backend.memory().allocate(backend.page_bytes(geometry)));
    pages.push_back(buffers.back().data());
  }
  const KvRun all{pages, 0, 0, kTokens};
  OwnedRows k(backend.memory(), kTokens, 16, random_floats(kTokens * 16, 1));
  OwnedRows v(backend.memory(), kTokens, 16, random_floats(kTokens * 16, 2));
  backend.write_kv({geometry, 0, {&all, 1}}, k.rows, v.rows);
  const KvRun last{pages, kTokens - n_rows, 0, n_rows};
  OwnedRows q(backend.memory(), n_rows, 4 * 16, random_floats(n_rows * 4 * 16, 3));
  OwnedRows out(backend.memory(), n_rows, 4 * 16);
  backend.attention({geometry, 0, {&last, 1}}, {.n_heads = 4, .scale = 0.25f, .window = window},
                    q.rows, out.rows);
  return out.values();
}

TEST(Backend, attention_of_one_long_sequence_has_the_same_bits_on_one_thread_and_on_many) {
  const auto alone = backend_of("", 1);
  const auto shared = backend_of("", 3);
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t window : {0, 3000}) {
      for (const uint32_t n_rows : {1, 20}) {
        EXPECT_TRUE(same_bytes(attend_long(*alone, type, window, n_rows),
                               attend_long(*shared, type, window, n_rows)))
            << name_of(type) << " window " << window << " rows " << n_rows;
      }
    }
  }
}

TEST(Backend, wrong_shapes_are_bugs) {
  const auto backend = backend_of("", 1);
  OwnedRows x(backend->memory(), 2, 32);
  OwnedRows y(backend->memory(), 2, 33);
  EXPECT_DEATH(backend->add(x.rows, y.rows), "same_shape");
}

}  // namespace
}  // namespace kvik
