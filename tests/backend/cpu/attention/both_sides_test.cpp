#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"

namespace kvik::cpu {
namespace {

using testing::OwnedRows;
using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kHeads = 3, kHeadDim = 20, kDim = kHeads * kHeadDim;

struct Text {
  uint32_t n_tokens;
  std::vector<float> q, k, v;  // [n_tokens, kDim]

  explicit Text(uint32_t n)
      : n_tokens(n),
        q(random_floats(size_t{n} * kDim, 3 * n)),
        k(random_floats(size_t{n} * kDim, 3 * n + 1)),
        v(random_floats(size_t{n} * kDim, 3 * n + 2)) {}
};

// Computes the attention of all texts in one call. Returns the rows of each text.
std::vector<std::vector<float>> attend(Backend& backend, const std::vector<Text>& texts,
                                       uint32_t window) {
  const KvGeometry geometry{.n_layers = 1, .n_kv_heads = kHeads, .head_dim = kHeadDim};
  const size_t page_bytes = backend.page_bytes(geometry);
  std::vector<float> q, k, v;
  std::vector<Buffer> pages;
  std::vector<std::vector<std::byte*>> tables;
  std::vector<KvRun> runs;
  uint32_t n_rows = 0;
  for (const Text& text : texts) {
    std::vector<std::byte*>& table = tables.emplace_back();
    for (uint32_t first = 0; first < text.n_tokens; first += kPageTokens) {
      pages.push_back(backend.memory().allocate(page_bytes));
      table.push_back(pages.back().data());
    }
    n_rows += text.n_tokens;
    q.insert(q.end(), text.q.begin(), text.q.end());
    k.insert(k.end(), text.k.begin(), text.k.end());
    v.insert(v.end(), text.v.begin(), text.v.end());
  }
  for (size_t i = 0, first = 0; i < texts.size(); first += texts[i++].n_tokens) {
    runs.push_back({tables[i], 0, static_cast<uint32_t>(first), texts[i].n_tokens});
  }
  Memory& memory = backend.memory();
  const OwnedRows queries(memory, n_rows, kDim, q), keys(memory, n_rows, kDim, k),
      values(memory, n_rows, kDim, v), out(memory, n_rows, kDim);
  const KvTarget kv{.geometry = geometry, .layer = 0, .runs = runs};
  backend.write_kv(kv, keys.rows, values.rows);
  backend.attention(
      kv, {.n_heads = kHeads, .scale = 0.3f, .window = window, .reach = AttentionReach::kBoth},
      queries.rows, out.rows);
  std::vector<std::vector<float>> results;
  const float* row = out.rows.data;
  for (const Text& text : texts) {
    results.emplace_back(row, row + size_t{text.n_tokens} * kDim);
    row += size_t{text.n_tokens} * kDim;
  }
  return results;
}

// The same for one text in double, by the formula.
std::vector<double> formula(const Text& text, uint32_t window) {
  std::vector<double> out(text.q.size());
  const auto n = static_cast<int>(text.n_tokens);
  for (uint32_t head = 0; head < kHeads; ++head) {
    for (int i = 0; i < n; ++i) {
      double total = 0;
      for (int j = 0; j < n; ++j) {
        if (window != 0 && std::abs(i - j) > static_cast<int>(window / 2)) continue;
        double score = 0;
        const size_t at_i = size_t{head} * kHeadDim + static_cast<size_t>(i) * kDim;
        const size_t at_j = size_t{head} * kHeadDim + static_cast<size_t>(j) * kDim;
        for (uint32_t d = 0; d < kHeadDim; ++d) {
          score += double{text.q[at_i + d]} * text.k[at_j + d];
        }
        const double weight = std::exp(0.3f * score);
        total += weight;
        for (uint32_t d = 0; d < kHeadDim; ++d) out[at_i + d] += weight * text.v[at_j + d];
      }
      for (uint32_t d = 0; d < kHeadDim; ++d) {
        out[size_t{head} * kHeadDim + static_cast<size_t>(i) * kDim + d] /= total;
      }
    }
  }
  return out;
}

TEST(BothSides, each_token_attends_to_all_tokens_of_its_text_or_of_its_window) {
  const auto backend = make_cpu_backend({.n_threads = 2, .isa = {}}).value();
  const std::vector<Text> texts = {Text(1), Text(31), Text(32), Text(33), Text(90), Text(600)};
  for (const uint32_t window : {0u, 1u, 9u, 33u, 129u}) {
    const auto got = attend(*backend, texts, window);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<double> expected = formula(texts[i], window);
      for (size_t at = 0; at < expected.size(); ++at) {
        ASSERT_NEAR(got[i][at], expected[at], 2e-5) << "text " << i << ", window " << window;
      }
    }
  }
}

TEST(BothSides, bits_do_not_depend_on_other_texts_threads_or_instruction_sets) {
  const std::vector<Text> texts = {Text(5), Text(600), Text(17), Text(40), Text(1), Text(70)};
  for (const uint32_t window : {0u, 33u}) {
    std::vector<std::vector<float>> first;
    for (const std::string_view isa : cpu_isa_names()) {
      for (const uint32_t n_threads : {1u, 3u}) {
        const auto backend =
            make_cpu_backend({.n_threads = n_threads, .isa = std::string(isa)}).value();
        const auto together = attend(*backend, texts, window);
        if (first.empty()) first = together;
        for (size_t i = 0; i < texts.size(); ++i) {
          EXPECT_TRUE(same_bytes(together[i], first[i])) << isa << " " << n_threads;
          EXPECT_TRUE(same_bytes(attend(*backend, {texts[i]}, window)[0], first[i])) << isa;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
