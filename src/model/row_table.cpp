#include "model/row_table.h"

#include <cstdlib>
#include <numeric>

#include "base/log.h"
#include "format/model_source.h"

namespace kvik {

uint64_t RowTable::buffer_bytes(const Backend& backend, ElementType type, uint64_t n_rows,
                                uint64_t n_cols) {
  const uint64_t row_bytes = TensorView{type, 1, n_cols, {}}.row_bytes() + sizeof(TokenId);
  return n_rows * row_bytes + backend.packed_bytes(type, n_rows, n_cols);
}

void RowTable::look_up(Backend& backend, std::span<const TokenId> rows, Rows out) const {
  if (matrix_) return backend.embed(*matrix_, rows, out);
  if (rows.empty()) return;
  const MutexLock lock(mutex_);
  const auto done = read(backend, rows, out);
  if (done) return;
  log::error("{}: {}: cannot continue without tensor '{}', which stayed in the file",
             source_->label(), done.error().message, source_->name_in_file(tensor_));
  std::_Exit(EXIT_FAILURE);
}

// Packs the rows as a matrix of their own, which has the same bits as these rows of the table.
Result<void> RowTable::read(Backend& backend, std::span<const TokenId> rows, Rows out) const {
  const TensorInfo& info = source_->tensors()[tensor_];
  TensorView view{info.type, rows.size(), info.shape.back(), {}};
  const uint64_t row_bytes = view.row_bytes();
  bytes_.clear();
  for (const TokenId row : rows) {
    TRY_ASSIGN(const auto bytes, source_->read_range(tensor_, row * row_bytes, row_bytes));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  TRY(source_->check_unchanged());
  view.bytes = bytes_;
  view.gather = source_->gather(tensor_);
  view.scale = source_->scale(tensor_, 0);
  TRY_ASSIGN(const auto packed, backend.pack_views({&view, 1}));
  in_order_.resize(rows.size());
  std::iota(in_order_.begin(), in_order_.end(), TokenId{0});
  backend.embed(*packed, in_order_, out);
  return {};
}

}  // namespace kvik
