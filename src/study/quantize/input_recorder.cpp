#include "study/quantize/input_recorder.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace kvik {

std::optional<TracedSource::Place> TracedSource::place_of(const std::byte* address) const {
  for (const auto& [index, lent] : lent_) {
    const std::less<> before;  // of pointers that do not point into one array
    const std::byte* const begin = lent.bytes.data();
    if (before(address, begin) || !before(address, begin + lent.bytes.size())) continue;
    return Place{tensors()[index].name, lent.begin_byte + static_cast<uint64_t>(address - begin)};
  }
  return std::nullopt;
}

Result<std::span<const std::byte>> TracedSource::read(size_t index) {
  return read_range(index, 0, tensors()[index].n_bytes);
}

Result<std::span<const std::byte>> TracedSource::read_range(size_t index, uint64_t begin_byte,
                                                            uint64_t n_bytes) {
  auto bytes = source_.read_range(index, begin_byte, n_bytes);
  if (bytes) lent_[index] = {begin_byte, *bytes};
  return bytes;
}

void TracedSource::release(size_t index) {
  lent_.erase(index);
  source_.release(index);
}

void InputRecorder::note(const TensorView& rows, std::vector<Part>& parts) {
  const auto place = source_.place_of(rows.bytes.data());
  CHECK(place.has_value());
  const TensorInfo& info = source_.tensors()[*source_.find(place->tensor)];
  const bool is_stack = info.shape.size() == 3;
  // Rows of one matrix may be packed in another order, and see the same inputs.
  if (!is_stack && std::ranges::count(parts, place->tensor, &Part::tensor) > 0) return;
  const uint64_t n_matrices = is_stack ? info.shape[0] : 1;
  parts.push_back({place->tensor, place->offset_bytes / (info.n_bytes / n_matrices)});
  importance_.expect(place->tensor, n_matrices, rows.n_cols);
}

Result<std::unique_ptr<PackedMatrix>> InputRecorder::pack(std::span<const TensorView> stacked,
                                                          const ReadRows& read) {
  std::vector<Part> parts;
  const auto noting = [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
    auto rows = read(matrix, first, n);
    if (rows && first == 0) note(*rows, parts);
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
