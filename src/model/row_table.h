#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/token_id.h"

namespace kvik {

class ModelSource;

// A table whose rows are looked up by number: per-layer embeddings, or the embeddings of n-grams.
// It is packed in the backend's memory, or stays in the model's file, from where each look-up reads
// the rows that it needs. Both give the same bits. Any thread.
class RowTable {
 public:
  // A table in the backend's memory, [n_rows, n_cols].
  explicit RowTable(std::unique_ptr<PackedMatrix> matrix) : matrix_(std::move(matrix)) {}
  // A tensor that stays in the source, for backends whose embed() computes at once.
  RowTable(std::shared_ptr<ModelSource> source, size_t tensor)
      : tensor_(tensor), source_(std::move(source)) {}

  // Returns the bytes that a look-up of n_rows rows takes if the table is in a file.
  static uint64_t buffer_bytes(const Backend& backend, ElementType type, uint64_t n_rows,
                               uint64_t n_cols);

  // out[r] = row rows[r], dequantized. out: [rows, n_cols]. Exits the process if the file cannot be
  // read or was changed, because a step cannot be computed without its rows.
  void look_up(Backend& backend, std::span<const TokenId> rows, Rows out) const;

 private:
  Result<void> read(Backend& backend, std::span<const TokenId> rows, Rows out) const
      REQUIRES(mutex_);

  std::unique_ptr<PackedMatrix> matrix_;  // null: the table is in a file
  size_t tensor_ = 0;
  mutable Mutex mutex_;
  std::shared_ptr<ModelSource> source_ GUARDED_BY(mutex_);
  mutable std::vector<std::byte> bytes_ GUARDED_BY(mutex_);
  mutable std::vector<TokenId> in_order_ GUARDED_BY(mutex_);
};

}  // namespace kvik
