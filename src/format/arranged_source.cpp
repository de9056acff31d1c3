#include "format/arranged_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "base/check.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

using Bytes = std::span<const std::byte>;

// Rows of every head: [2, head_dim / 2] → [head_dim / 2, 2].
void pair_rows(Bytes from, uint32_t head_dim, size_t row_bytes, std::byte* to) {
  const size_t n_rows = from.size() / row_bytes;
  for (size_t row = 0; row < n_rows; ++row) {
    const size_t in_head = row % head_dim;
    const size_t half = in_head % 2;
    const size_t source = row - in_head + half * (head_dim / 2) + in_head / 2;
    std::memcpy(to + row * row_bytes, from.data() + source * row_bytes, row_bytes);
  }
}

// What a piece's elements are.
struct PieceValues {
  ElementType type;
  float scale;
};

// A matrix of n_rows rows. How many bytes it became.
size_t transpose(PieceValues of, Bytes from, uint32_t n_rows, std::byte* to) {
  const ElementType type = of.type;
  const size_t row_bytes = from.size() / n_rows;
  const size_t n_cols = row_bytes / traits(type).block_bytes * traits(type).block_elements;
  std::vector<std::byte> plain;
  if (traits(type).block_elements != 1) {
    plain.resize(n_rows * n_cols * sizeof(uint16_t));
    std::vector<float> row(n_cols);
    for (size_t r = 0; r < n_rows; ++r) {
      dequantize_row(type, from.data() + r * row_bytes, row);
      for (float& value : row) value *= of.scale;
      quantize_row(ElementType::kF16, row, plain.data() + r * n_cols * sizeof(uint16_t));
    }
    from = plain;
  }
  const size_t n_bytes = from.size() / n_rows / n_cols;
  for (size_t c = 0; c < n_cols; ++c) {
    for (size_t r = 0; r < n_rows; ++r, to += n_bytes) {
      std::memcpy(to, from.data() + (r * n_cols + c) * n_bytes, n_bytes);
    }
  }
  return from.size();
}

// Of every row, blocks of columns of one size: block i is block order[i] of the source's.
void move_columns(Bytes from, std::span<const uint32_t> order, uint64_t n_rows, std::byte* to) {
  const size_t n_bytes = from.size() / n_rows / order.size();
  for (uint64_t row = 0; row < n_rows; ++row) {
    const std::byte* of_row = from.data() + row * order.size() * n_bytes;
    for (const uint32_t block : order) {
      std::memcpy(to, of_row + block * n_bytes, n_bytes);
      to += n_bytes;
    }
  }
}

class ArrangedSource final : public ModelSource {
 public:
  ArrangedSource(std::unique_ptr<ModelSource> base, std::string label, Metadata metadata,
                 std::vector<ArrangedTensor> tensors)
      : base_(std::move(base)),
        label_(std::move(label)),
        metadata_(std::move(metadata)),
        tensors_(std::move(tensors)) {
    for (const ArrangedTensor& tensor : tensors_) infos_.push_back(tensor.info);
  }

  const std::string& label() const override { return label_; }
  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return infos_; }

  Result<Bytes> read(size_t index) override {
    CHECK(index < tensors_.size());
    const ArrangedTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) return std::as_bytes(std::span(tensor.values));
    if (const auto kept = copies_.find(index); kept != copies_.end()) return Bytes(kept->second);
    const bool is_one = tensor.pieces.size() == 1 && tensor.arrangement == Arrangement::kAsIs;
    TRY_ASSIGN(const Bytes bytes, is_one ? piece(tensor.pieces.front()) : arranged(index));
    TRY(note_scales(index));
    return bytes;
  }

  // Of a stack of other tensors, the one before is given back.
  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    CHECK(index < tensors_.size());
    const auto at = piece_at(index, begin_byte, n_bytes);
    if (!at) return ModelSource::read_range(index, begin_byte, n_bytes);
    const ArrangedTensor::Piece& p = tensors_[index].pieces[at->piece];
    Ranges& ranges = ranges_[index];
    const size_t before = std::exchange(ranges.tensor, p.tensor);
    if (before != p.tensor && before != kNone) base_->release(before);
    TRY_ASSIGN(const Bytes bytes,
               base_->read_range(p.tensor, p.begin_byte + at->first_byte, n_bytes));
    TRY(note_order(index, p));
    TRY(note_scales_of_piece(index, at->piece));
    return bytes;
  }

  void release(size_t index) override {
    CHECK(index < tensors_.size());
    copies_.erase(index);
    scales_.erase(index);
    ranges_.erase(index);
    for (const ArrangedTensor::Piece& p : tensors_[index].pieces) base_->release(p.tensor);
  }

  std::string name_in_file(size_t index) const override {
    const ArrangedTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) return tensor.info.name;
    return base_->name_in_file(tensor.pieces.front().tensor);
  }

  std::span<const uint32_t> gather(size_t index) const override {
    const ArrangedTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) return {};
    const auto ranges = ranges_.find(index);
    if (ranges != ranges_.end()) return ranges->second.order;
    return base_->gather(tensor.pieces.front().tensor);
  }

  std::span<const float> scales(size_t index) const override {
    const auto found = scales_.find(index);
    return found == scales_.end() ? std::span<const float>() : found->second;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // What is known of a tensor that is read range by range.
  struct Ranges {
    size_t tensor = kNone;        // of the base, that was read last
    size_t first_tensor = kNone;  // that told the order
    std::vector<uint32_t> order;
  };
  struct PieceAt {
    size_t piece;
    uint64_t first_byte;  // in the piece
  };

  // Where a range of bytes lies that need no arranging, if it is all in one piece.
  std::optional<PieceAt> piece_at(size_t index, uint64_t begin_byte, uint64_t n_bytes) const {
    const ArrangedTensor& tensor = tensors_[index];
    const size_t n = tensor.pieces.size();
    const bool is_stack = !tensor.info.shape.empty() && n == tensor.info.shape.front();
    const bool has_copy = copies_.contains(index);
    if (has_copy || tensor.arrangement != Arrangement::kAsIs || (n != 1 && !is_stack)) return {};
    for (size_t i = 0; i < n; begin_byte -= tensor.pieces[i++].n_bytes) {
      if (begin_byte >= tensor.pieces[i].n_bytes) continue;
      if (n_bytes > tensor.pieces[i].n_bytes - begin_byte) return {};
      return PieceAt{i, begin_byte};
    }
    return {};
  }

  // A tensor has its columns in one order, so its pieces must.
  Result<void> note_order(size_t index, const ArrangedTensor::Piece& p) {
    Ranges& ranges = ranges_[index];
    const auto order = base_->gather(p.tensor);
    if (ranges.first_tensor == kNone) {
      ranges.first_tensor = p.tensor;
      ranges.order.assign(order.begin(), order.end());
    }
    if (std::ranges::equal(order, ranges.order)) return {};
    return unlike_order(p.tensor, ranges.first_tensor);
  }

  // Once it has been read. Of a stack of tensors, those before keep theirs.
  Result<void> note_scales_of_piece(size_t index, size_t piece) {
    const ArrangedTensor& tensor = tensors_[index];
    if (tensor.scales || tensor.pieces.size() == 1) return note_scales(index);
    if (tensor.info.type != base_->tensors()[tensor.pieces[piece].tensor].type) return {};
    const float scale = scales_of(tensor.pieces[piece]).front();
    if (scale == 1 && !scales_.contains(index)) return {};
    auto& scales = scales_[index];
    scales.resize(tensor.pieces.size(), 1.0f);
    scales[piece] = scale;
    return {};
  }

  // Of the slices along the first axis that a piece of the base covers, or one for all of it.
  std::vector<float> scales_of(const ArrangedTensor::Piece& p) const {
    const auto all = base_->scales(p.tensor);
    if (all.size() <= 1) return {all.empty() ? 1.0f : all.front()};
    const uint64_t slice_bytes = base_->tensors()[p.tensor].n_bytes / all.size();
    const auto some =
        all.subspan(p.begin_byte / slice_bytes, std::max<uint64_t>(1, p.n_bytes / slice_bytes));
    return {some.begin(), some.end()};
  }

  // Once its pieces have been read.
  Result<void> note_scales(size_t index) {
    const ArrangedTensor& tensor = tensors_[index];
    std::vector<float> scales;
    if (tensor.scales) {
      TRY_ASSIGN(scales, stated_scales(*tensor.scales));
    } else if (tensor.info.type == base_->tensors()[tensor.pieces.front().tensor].type) {
      for (const ArrangedTensor::Piece& p : tensor.pieces) {
        const std::vector<float> of_piece = scales_of(p);
        scales.insert(scales.end(), of_piece.begin(), of_piece.end());
      }
    }
    if (std::ranges::adjacent_find(scales, std::not_equal_to()) == scales.end()) {
      scales.resize(std::min<size_t>(1, scales.size()));
    }
    if (scales == std::vector<float>{1}) scales.clear();
    CHECK(scales.size() <= 1 || scales.size() == tensor.info.shape.front());
    if (!scales.empty()) scales_[index] = std::move(scales);
    return {};
  }

  Result<std::vector<float>> stated_scales(size_t in_base) {
    TRY_ASSIGN(const Bytes bytes, base_->read(in_base));
    std::vector<float> scales(bytes.size() / sizeof(float));
    std::memcpy(scales.data(), bytes.data(), bytes.size());
    base_->release(in_base);
    for (const float scale : scales) {
      if (std::isfinite(scale)) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("tensor {} holds {}, expected finite numbers",
                                                   quoted(base_->name_in_file(in_base)), scale));
    }
    return scales;
  }

  // The same where all pieces have been read.
  Result<void> check_order(const ArrangedTensor& tensor) const {
    const size_t first = tensor.pieces.front().tensor;
    for (const ArrangedTensor::Piece& p : tensor.pieces) {
      if (!std::ranges::equal(base_->gather(p.tensor), base_->gather(first))) {
        return unlike_order(p.tensor, first);
      }
    }
    return {};
  }

  std::unexpected<Error> unlike_order(size_t tensor, size_t first) const {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tensor {} has its columns in another order than {}, expected one "
                    "order for the experts of a layer",
                    quoted(base_->name_in_file(tensor)), quoted(base_->name_in_file(first))));
  }

  Result<Bytes> piece(const ArrangedTensor::Piece& p) {
    TRY_ASSIGN(const Bytes whole, base_->read(p.tensor));
    return whole.subspan(p.begin_byte, p.n_bytes);
  }

  Result<Bytes> arranged(size_t index) {
    const ArrangedTensor& tensor = tensors_[index];
    std::vector<std::byte> bytes(tensor.info.n_bytes);
    std::byte* to = bytes.data();
    for (const ArrangedTensor::Piece& p : tensor.pieces) {
      TRY_ASSIGN(const Bytes from, piece(p));
      to += add_piece(tensor, {base_->tensors()[p.tensor].type, scales_of(p).front()}, from, to);
    }
    CHECK(to == bytes.data() + bytes.size());
    TRY(check_order(tensor));
    return Bytes(copies_[index] = std::move(bytes));
  }

  // How many bytes it became.
  static size_t add_piece(const ArrangedTensor& tensor, PieceValues of, Bytes from, std::byte* to) {
    if (tensor.arrangement == Arrangement::kAsIs) {
      std::memcpy(to, from.data(), from.size());
      return from.size();
    }
    if (tensor.arrangement == Arrangement::kPairedRows) {
      const uint64_t n_rows = tensor.info.shape.front();
      pair_rows(from, tensor.head_dim, from.size() / n_rows, to);
      return from.size();
    }
    if (tensor.arrangement == Arrangement::kTransposed) {
      return transpose(of, from, tensor.head_dim, to);
    }
    if (tensor.arrangement == Arrangement::kMovedColumns) {
      move_columns(from, tensor.order, tensor.info.shape.front(), to);
      return from.size();
    }
    std::vector<float> values(from.size() / traits(of.type).block_bytes);
    dequantize_row(of.type, from.data(), values);
    if (tensor.arrangement == Arrangement::kNegativeExp) {
      for (float& value : values) value = static_cast<float>(-std::exp(double{value}));
    }
    if (tensor.arrangement == Arrangement::kFloatsPlusOne) {
      for (float& value : values) value += 1.0f;
    }
    const auto bytes = std::as_bytes(std::span(values));
    if (tensor.arrangement == Arrangement::kPairedFloats) {
      pair_rows(bytes, tensor.head_dim, sizeof(float), to);
    } else {
      std::memcpy(to, bytes.data(), bytes.size());
    }
    return bytes.size();
  }

  std::unique_ptr<ModelSource> base_;
  std::string label_;
  Metadata metadata_;
  std::vector<ArrangedTensor> tensors_;
  std::vector<TensorInfo> infos_;
  std::map<size_t, std::vector<std::byte>> copies_;
  std::map<size_t, std::vector<float>> scales_;  // of what has been read
  std::map<size_t, Ranges> ranges_;
};

}  // namespace

std::expected<ArrangedTensor, size_t> stack_of(const ModelSource& source, std::string name,
                                               std::span<const size_t> matrices) {
  ArrangedTensor stack;
  stack.info = source.tensors()[matrices.front()];
  for (size_t i = 0; i < matrices.size(); ++i) {
    const TensorInfo& info = source.tensors()[matrices[i]];
    if (info.type != stack.info.type || info.shape != stack.info.shape || info.shape.size() != 2) {
      return std::unexpected(i);
    }
    stack.pieces.push_back({matrices[i], 0, info.n_bytes});
  }
  stack.info.name = std::move(name);
  stack.info.shape.insert(stack.info.shape.begin(), matrices.size());
  stack.info.n_bytes *= matrices.size();
  return stack;
}

std::unique_ptr<ModelSource> arrange(std::unique_ptr<ModelSource> base, std::string label,
                                     Metadata metadata, std::vector<ArrangedTensor> tensors) {
  return std::make_unique<ArrangedSource>(std::move(base), std::move(label), std::move(metadata),
                                          std::move(tensors));
}

}  // namespace kvik
