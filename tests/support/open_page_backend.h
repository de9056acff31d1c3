#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backend/forwarding_backend.h"
#include "support/tiny_model.h"

namespace kvik {

// A backend whose attention output depends on every byte of each row's open page, independently of
// the kernels. write_kv() stores there a hash of K and V and the row's position. attention() checks
// the positions of the page's tokens up to the row and adds a value derived from their hashes to
// the output. The hash covers K and V only. Needs CPU memory.
class OpenPageBackend final : public ForwardingBackend {
 public:
  explicit OpenPageBackend(std::unique_ptr<Backend> next)
      : ForwardingBackend(*next), next_(std::move(next)) {}

  void write_kv(const KvTarget& kv, Rows k, Rows v) override {
    const std::vector<KvRun> plain = without_open(kv);
    const KvGeometry geometry = without_open(kv.geometry);
    next_->write_kv({geometry, kv.layer, plain}, k, v);
    for (const KvRun& run : kv.runs) {
      for (uint32_t i = 0; i < run.n_rows; ++i) {
        const uint32_t position = run.first_position + i;
        Note note{.hash = hash(k, run.first_row + i), .position = position};
        if (v.data) note.hash ^= 31 * hash(v, run.first_row + i);
        if (std::byte* at = place(kv, run, position, position)) {
          std::memcpy(at, &note, sizeof note);
          ++n_written;
        }
      }
    }
  }

  void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) override {
    const std::vector<KvRun> plain = without_open(kv);
    const KvGeometry geometry = without_open(kv.geometry);
    next_->attention({geometry, kv.layer, plain}, shape, q, out);
    for (const KvRun& run : kv.runs) {
      for (uint32_t i = 0; i < run.n_rows; ++i) add(kv, run, run.first_position + i, i, out);
    }
  }

  uint64_t n_written = 0;  // number of stored hashes
  uint64_t n_runs_without = 0;

 private:
  struct Note {
    uint32_t hash = 0;
    uint32_t position = 0;
  };

  static std::vector<KvRun> without_open(const KvTarget& kv) {
    std::vector<KvRun> runs(kv.runs.begin(), kv.runs.end());
    for (KvRun& run : runs) run.open = {};
    return runs;
  }

  // Without per-channel keys a head needs no more space than in the original geometry.
  static KvGeometry without_open(KvGeometry geometry) {
    geometry.keys_by_channel = false;
    return geometry;
  }

  static uint32_t hash(Rows rows, uint32_t row) {
    uint32_t sum = 2166136261u;
    for (uint32_t col = 0; col < rows.n_cols; ++col) {
      sum = (sum ^ std::bit_cast<uint32_t>(rows.data[size_t{row} * rows.stride + col])) * 16777619u;
    }
    return sum;
  }

  // Returns the address of a token's note in the open page of `position`, or null if the run has no
  // open pages.
  std::byte* place(const KvTarget& kv, const KvRun& run, uint32_t position, uint32_t token) {
    if (run.open.empty()) {
      ++n_runs_without;
      return nullptr;
    }
    const uint32_t index = position / kPageTokens - run.first_position / kPageTokens;
    EXPECT_LT(index, run.open.size());
    const KvGeometry& g = kv.geometry;
    EXPECT_LT(kv.layer, g.n_layers);
    // A note fits in the bytes of one token's bf16 K.
    EXPECT_GE(g.n_kv_heads * g.head_dim * sizeof(uint16_t), sizeof(Note));
    return run.open[index] + (kv.layer * kPageTokens + token % kPageTokens) * sizeof(Note);
  }

  void add(const KvTarget& kv, const KvRun& run, uint32_t position, uint32_t i, Rows out) {
    uint32_t sum = 1;
    for (uint32_t token = position / kPageTokens * kPageTokens; token <= position; ++token) {
      const std::byte* at = place(kv, run, position, token);
      if (!at) return;
      Note note;
      std::memcpy(&note, at, sizeof note);
      EXPECT_EQ(note.position, token) << "of the row at " << position;
      sum = (sum ^ note.hash) * 16777619u;
    }
    float* row = out.data + size_t{run.first_row + i} * out.stride;
    for (uint32_t col = 0; col < out.n_cols; ++col) {
      sum = sum * 1664525u + 1013904223u;
      row[col] += (static_cast<float>(sum >> 24) - 127.5f) * 2e-3f;
    }
  }

  std::unique_ptr<Backend> next_;
};

// Returns the tiny model with its backend wrapped in an OpenPageBackend.
inline TinyModel with_open_page_backend(TinyModel tiny) {
  tiny.backend = std::make_unique<OpenPageBackend>(std::move(tiny.backend));
  return tiny;
}

}  // namespace kvik
