#include "study/quantize/input_recorder.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

void InputRecorder::note_part(std::vector<Part>& parts) {
  const ModelSource::Place place = source_.last_read();
  const TensorInfo& info = source_.tensors()[place.tensor];
  const bool is_stack = info.shape.size() == 3;
  // The rows of one matrix may be packed in pieces and in another order, but all have the same
  // inputs.
  if (!is_stack && std::ranges::count(parts, info.name, &Part::tensor) > 0) return;
  const uint64_t n_matrices = is_stack ? info.shape[0] : 1;
  parts.push_back({info.name, place.begin_byte / (info.n_bytes / n_matrices)});
  importance_.expect(info.name, n_matrices, info.shape.back());
}

Result<std::unique_ptr<PackedMatrix>> InputRecorder::pack(std::span<const TensorView> stacked,
                                                          const ReadRows& read) {
  std::vector<Part> parts;
  const auto noting = [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
    auto rows = read(matrix, first, n);
    if (rows && first == 0) note_part(parts);
    return rows;
  };
  auto packed = backend_->pack(stacked, noting);
  if (packed) parts_[packed->get()] = std::move(parts);
  return packed;
}

void InputRecorder::record(Rows x, uint32_t row, std::span<const Part> parts) {
  row_.resize(x.n_cols);
  backend_->memory().copy_out(std::as_writable_bytes(std::span(row_)),
                              reinterpret_cast<const std::byte*>(x.data + size_t{row} * x.stride));
  for (const Part& part : parts) importance_.add(part.tensor, part.matrix, row_);
}

void InputRecorder::record_all(Rows x, const PackedMatrix& w) {
  const std::vector<Part>& parts = parts_.at(&w);
  for (uint32_t row = 0; row < x.n_rows; ++row) record(x, row, parts);
}

void InputRecorder::matmul(Rows x, const PackedMatrix& w, Rows out) {
  record_all(x, w);
  backend_->matmul(x, w, out);
}

void InputRecorder::matmul_add(Rows x, const PackedMatrix& w, Rows out) {
  record_all(x, w);
  backend_->matmul_add(x, w, out);
}

void InputRecorder::grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                                   Rows out) {
  const std::span<const Part> parts = parts_.at(&w);
  const size_t n_parts = parts.size() / groups.n_matrices;
  for (const RowGroup& group : groups.groups) {
    for (uint32_t i = group.first; i < group.first + group.n_rows; ++i) {
      record(x, groups.rows.empty() ? i : groups.rows[i],
             parts.subspan(group.matrix * n_parts, n_parts));
    }
  }
  backend_->grouped_matmul(x, w, groups, out);
}

void InputRecorder::head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) {
  const std::span<const Part> parts = parts_.at(&w);
  for (uint32_t head = 0; head < x.n_heads; ++head) {
    const Rows of_head = x.rows.columns(x.first + head * x.step, x.n_cols);
    for (uint32_t row = 0; row < of_head.n_rows; ++row) {
      record(of_head, row, parts.subspan(head, 1));
    }
  }
  backend_->head_matmul(x, w, out);
}

}  // namespace kvik
