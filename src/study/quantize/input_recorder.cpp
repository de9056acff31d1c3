#include "study/quantize/input_recorder.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace kvik {

std::optional<TracedSource::Place> TracedSource::place_of(const std::byte* address) const {
  for (const auto& [index, bytes] : lent_) {
    const std::less<> before;  // of pointers that do not point into one array
    if (before(address, bytes.data()) || !before(address, bytes.data() + bytes.size())) continue;
    return Place{tensors()[index].name, static_cast<uint64_t>(address - bytes.data())};
  }
  return std::nullopt;
}

Result<std::span<const std::byte>> TracedSource::read(size_t index) {
  auto bytes = source_.read(index);
  if (bytes) lent_[index] = *bytes;
  return bytes;
}

void TracedSource::release(size_t index) {
  lent_.erase(index);
  source_.release(index);
}

Result<std::unique_ptr<PackedMatrix>> InputRecorder::pack(std::span<const TensorView> stacked) {
  std::vector<Part> parts;
  for (const TensorView& view : stacked) {
    const auto place = source_.place_of(view.bytes.data());
    CHECK(place.has_value());
    const TensorInfo& info = source_.tensors()[*source_.find(place->tensor)];
    const bool is_stack = info.shape.size() == 3;
    // Rows of one matrix may be packed in another order, and see the same inputs.
    if (!is_stack && std::ranges::count(parts, place->tensor, &Part::tensor) > 0) continue;
    parts.push_back({place->tensor, is_stack ? place->offset_bytes / view.bytes.size() : 0});
    importance_.expect(place->tensor, is_stack ? info.shape[0] : 1, view.n_cols);
  }
  auto packed = backend_->pack(stacked);
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
