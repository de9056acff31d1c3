#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"
#include "tensor/half.h"

// Helpers of the tests of indexers and of attention to selected tokens.
namespace kvik::testing {

inline std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads = 2) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

// Pages that hold NaN until something is written to them.
class Pages {
 public:
  Pages(Backend& backend, size_t n_pages, size_t n_bytes) {
    for (size_t i = 0; i < n_pages; ++i) {
      buffers_.push_back(backend.memory().allocate(n_bytes));
      std::memset(buffers_.back().data(), 0xff, n_bytes);
      addresses.push_back(buffers_.back().data());
    }
  }
  std::vector<std::byte*> addresses;

 private:
  std::vector<Buffer> buffers_;
};

inline std::vector<uint32_t> range(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

// Returns rows of random numbers. A row depends on the seed and on its number alone.
inline std::vector<float> numbers(uint32_t seed, uint32_t first_row, uint32_t n_rows,
                                  uint32_t width) {
  std::vector<float> all;
  for (uint32_t row = first_row; row < first_row + n_rows; ++row) {
    const auto values = random_floats(width, seed + 100 * row);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Writes the index keys of a case's tokens and calls select(first, target, queries, weights) for
// the rows of each chunk. The numbers of a row do not depend on the chunk.
template <class Case, class Select>
void select_in_chunks(Backend& backend, const Case& c, uint32_t key_tokens, uint32_t chunk,
                      float query_factor, Select select) {
  Pages pages(backend, (c.n_tokens + kPageTokens - 1) / kPageTokens,
              c.offset + kPageTokens / key_tokens * index_key_bytes(c.type, c.dim));
  for (uint32_t first = 0; first < c.n_tokens; first += chunk) {
    const uint32_t n = std::min(chunk, c.n_tokens - first);
    const KvRun run{pages.addresses, first, 0, n};
    const IndexTarget target{c.offset, index_key_type(c.type), c.dim, {&run, 1}, key_tokens};
    Memory& memory = backend.memory();
    backend.write_index(target, OwnedRows(memory, n, c.dim, numbers(1, first, n, c.dim)).rows);
    std::vector<float> queries = numbers(2, first, n, c.n_heads * c.dim);
    for (float& x : queries) x *= query_factor;
    const OwnedRows q(memory, n, c.n_heads * c.dim, queries);
    const OwnedRows weights(memory, n, c.n_heads, numbers(3, first, n, c.n_heads));
    select(first, target, q.rows, weights.rows);
  }
}

using Lists = std::vector<std::vector<uint32_t>>;

// Lists hold this number before a selection, which shows the places that it does not write.
constexpr uint32_t kUnwritten = 12345;

// Adds the lists of some rows to `lists`, each of `width` numbers. Those for which is_full(i),
// which attend to all tokens, must be unwritten and become empty.
template <class IsFull>
void add_lists(const std::vector<uint32_t>& listed, size_t width, IsFull is_full, Lists& lists) {
  for (size_t i = 0; i < listed.size() / width; ++i) {
    const auto begin = listed.begin() + static_cast<ptrdiff_t>(i * width);
    lists.emplace_back(begin, begin + static_cast<ptrdiff_t>(width));
    if (!is_full(static_cast<uint32_t>(i))) continue;
    for (const uint32_t number : lists.back()) EXPECT_EQ(number, kUnwritten);
    lists.back().clear();
  }
}

// Returns the index key that a page holds of row `row` of the keys.
inline std::vector<float> stored_key(KvType type, uint32_t row, uint32_t dim) {
  std::vector<float> key = numbers(1, row, 1, dim);
  if (type != KvType::kF32) {
    for (float& x : key) x = bf16_to_f32(f32_to_bf16(x));
  }
  return key;
}

// Returns q[head] · key.
inline double index_product(const std::vector<float>& q, const std::vector<float>& key,
                            uint32_t head) {
  double dot = 0;
  for (size_t d = 0; d < key.size(); ++d) dot += double{q[head * key.size() + d]} * key[d];
  return dot;
}

// Returns the sum over the heads of weight · max(q · key, 0) for a row.
template <class Case>
double index_score(const Case& c, uint32_t row, const std::vector<float>& key) {
  const auto q = numbers(2, row, 1, c.n_heads * c.dim);
  const auto weights = numbers(3, row, 1, c.n_heads);
  double score = 0;
  for (uint32_t h = 0; h < c.n_heads; ++h) {
    score += weights[h] * std::max(index_product(q, key, h), 0.0);
  }
  return score;
}

// Returns the places of the n highest scores in ascending order; among equals the first.
inline std::vector<uint32_t> highest(const std::vector<double>& scores, size_t n) {
  std::vector<uint32_t> order = range(0, static_cast<uint32_t>(scores.size()));
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(n);
  std::ranges::sort(order);
  return order;
}

// Expects equal lists of select(backend, chunk) on all sets, with one and three threads and with
// all chunks.
template <class Select>
void expect_same_lists(std::initializer_list<uint32_t> chunks, Select select) {
  Lists first;
  for (const std::string_view isa : cpu_isa_names()) {
    for (const uint32_t n_threads : {1, 3}) {
      for (const uint32_t chunk : chunks) {
        const Lists lists = select(*backend_of(isa, n_threads), chunk);
        if (first.empty()) first = lists;
        EXPECT_EQ(lists, first) << isa << " " << n_threads << " " << chunk;
      }
    }
  }
}

}  // namespace kvik::testing
