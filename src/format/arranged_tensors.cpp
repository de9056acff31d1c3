#include "format/arranged_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

using Bytes = std::span<const std::byte>;

// Permutes the rows of every head: [2, head_dim / 2] → [head_dim / 2, 2].
void pair_rows(Bytes from, uint32_t head_dim, size_t row_bytes, std::byte* to) {
  const size_t n_rows = from.size() / row_bytes;
  for (size_t row = 0; row < n_rows; ++row) {
    const size_t in_head = row % head_dim;
    const size_t half = in_head % 2;
    const size_t source = row - in_head + half * (head_dim / 2) + in_head / 2;
    std::memcpy(to + row * row_bytes, from.data() + source * row_bytes, row_bytes);
  }
}

// Element type and scale of a piece.
struct PieceValues {
  ElementType type;
  float scale;
};

// Transposes a matrix of n_rows rows. Returns the number of bytes written.
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

// Permutes blocks of columns of equal size in every row: block i is block order[i] of the source.
void permute_columns(Bytes from, std::span<const uint32_t> order, uint64_t n_rows, std::byte* to) {
  const size_t n_bytes = from.size() / n_rows / order.size();
  for (uint64_t row = 0; row < n_rows; ++row) {
    const std::byte* of_row = from.data() + row * order.size() * n_bytes;
    for (const uint32_t block : order) {
      std::memcpy(to, of_row + block * n_bytes, n_bytes);
      to += n_bytes;
    }
  }
}

class RearrangedTensors final : public TensorTransform {
 public:
  RearrangedTensors(TensorSource& inputs, std::vector<ArrangedTensor> tensors)
      : TensorTransform(inputs, outputs_of(inputs, tensors)), tensors_(std::move(tensors)) {}

  // In a stack of several tensors, each one is released before the next is read.
  Result<void> make(size_t index, Range wanted, Made& made) override {
    const ArrangedTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) {
      made.bytes = std::as_bytes(std::span(tensor.values));
      return {};
    }
    if (tensor.is_joined) return join(index, wanted, made);
    const auto at = piece_at(tensor, wanted);
    if (!at) return assemble(tensor, made);
    const ArrangedTensor::Piece& p = tensor.pieces[at->piece];
    PiecesRead& read = read_.try_emplace(index, p.tensor, p.tensor).first->second;
    const size_t before = std::exchange(read.last, p.tensor);
    if (before != p.tensor) inputs_.release(before);
    TRY_ASSIGN(made.bytes,
               inputs_.read_range(p.tensor, p.begin_byte + at->first_byte, wanted.n_bytes));
    made.begin = wanted.begin;
    TRY(note_order(p.tensor, read.first, made));
    return note_scales_of_piece(tensor, at->piece, made);
  }

  void release(size_t index) override {
    read_.erase(index);
    for (const ArrangedTensor::Piece& p : tensors_[index].pieces) inputs_.release(p.tensor);
  }

 private:
  // Inputs that were read for an output that is read in ranges.
  struct PiecesRead {
    size_t first;  // index of the input whose order of columns was recorded
    size_t last;
  };
  struct PieceAt {
    size_t piece;
    uint64_t first_byte;  // within the piece
  };

  static std::vector<Output> outputs_of(const TensorSource& inputs,
                                        std::span<const ArrangedTensor> tensors) {
    std::vector<Output> outputs;
    for (const ArrangedTensor& tensor : tensors) {
      if (tensor.pieces.empty()) {
        outputs.push_back({.info = tensor.info, .input = {}, .is_made = true});
        continue;
      }
      const ArrangedTensor::Piece& first = tensor.pieces.front();
      const bool is_whole =
          tensor.pieces.size() == 1 && first.n_bytes == inputs.tensors()[first.tensor].n_bytes;
      const bool stays = is_whole && tensor.arrangement == Arrangement::kAsIs && !tensor.scales;
      outputs.push_back({tensor.info, first.tensor, !stays});
    }
    return outputs;
  }

  // Returns the piece that contains a range; std::nullopt if the range spans several pieces or the
  // tensor is rearranged.
  static std::optional<PieceAt> piece_at(const ArrangedTensor& tensor, Range wanted) {
    auto [begin_byte, n_bytes] = wanted;
    const size_t n = tensor.pieces.size();
    const bool is_stack = !tensor.info.shape.empty() && n == tensor.info.shape.front();
    if (tensor.arrangement != Arrangement::kAsIs || (n != 1 && !is_stack)) return {};
    for (size_t i = 0; i < n; begin_byte -= tensor.pieces[i++].n_bytes) {
      if (begin_byte >= tensor.pieces[i].n_bytes) continue;
      if (n_bytes > tensor.pieces[i].n_bytes - begin_byte) return {};
      return PieceAt{i, begin_byte};
    }
    return {};
  }

  // Records the order of columns, which must be the same in all pieces of a tensor. Call after
  // `input` was read.
  Result<void> note_order(size_t input, size_t first, Made& made) const {
    const auto order = inputs_.gather(input);
    if (input == first) made.gather.assign(order.begin(), order.end());
    if (std::ranges::equal(order, made.gather)) return {};
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tensor {} has its columns in another order than {}, expected one "
                    "order for the experts of a layer",
                    quoted(inputs_.name_in_file(input)), quoted(inputs_.name_in_file(first))));
  }

  // Records the scales of a piece after it was read. Scales of earlier tensors of a stack are kept.
  Result<void> note_scales_of_piece(const ArrangedTensor& tensor, size_t piece, Made& made) {
    if (tensor.scales || tensor.pieces.size() == 1) return note_scales(tensor, made);
    if (tensor.info.type != inputs_.tensors()[tensor.pieces[piece].tensor].type) return {};
    const float scale = scales_of(tensor.pieces[piece]).front();
    if (scale == 1 && made.scales.empty()) return {};
    made.scales.resize(tensor.pieces.size(), 1.0f);
    made.scales[piece] = scale;
    return {};
  }

  // Returns the scales of the slices along the first axis that a piece covers, or one for all of
  // it.
  std::vector<float> scales_of(const ArrangedTensor::Piece& p) const {
    const auto all = inputs_.scales(p.tensor);
    if (all.size() <= 1) return {all.empty() ? 1.0f : all.front()};
    const uint64_t slice_bytes = inputs_.tensors()[p.tensor].n_bytes / all.size();
    const auto some =
        all.subspan(p.begin_byte / slice_bytes, std::max<uint64_t>(1, p.n_bytes / slice_bytes));
    return {some.begin(), some.end()};
  }

  // Records the scales after the pieces were read.
  Result<void> note_scales(const ArrangedTensor& tensor, Made& made) {
    std::vector<float> scales;
    if (tensor.scales) {
      TRY_ASSIGN(scales, stated_scales(*tensor.scales));
    } else if (tensor.info.type == inputs_.tensors()[tensor.pieces.front().tensor].type) {
      for (const ArrangedTensor::Piece& p : tensor.pieces) {
        const std::vector<float> of_piece = scales_of(p);
        scales.insert(scales.end(), of_piece.begin(), of_piece.end());
      }
    }
    if (std::ranges::adjacent_find(scales, std::not_equal_to()) == scales.end()) {
      scales.resize(std::min<size_t>(1, scales.size()));
    }
    if (scales == std::vector<float>{1}) scales.clear();
    if (scales.size() > 1 && scales.size() != tensor.info.shape.front()) {
      const size_t input = tensor.pieces.front().tensor;
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} has another scale than the tensor with which it forms {}, "
                              "expected one scale",
                              quoted(inputs_.name_in_file(input)), quoted(tensor.info.name)));
    }
    made.scales = std::move(scales);
    return {};
  }

  Result<std::vector<float>> stated_scales(size_t input) {
    TRY_ASSIGN(const Bytes bytes, inputs_.read(input));
    std::vector<float> scales(bytes.size() / sizeof(float));
    std::memcpy(scales.data(), bytes.data(), bytes.size());
    inputs_.release(input);
    for (const float scale : scales) {
      if (std::isfinite(scale)) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("tensor {} holds {}, expected finite numbers",
                                                   quoted(inputs_.name_in_file(input)), scale));
    }
    return scales;
  }

  // Reads the rows of a joined table. The piece read last is released before the next one is read.
  Result<void> join(size_t index, Range wanted, Made& made) {
    const ArrangedTensor& tensor = tensors_[index];
    size_t& last = read_.try_emplace(index, 0, tensor.pieces.front().tensor).first->second.last;
    std::byte* to = made.allocate(wanted.begin, wanted.n_bytes);
    const uint64_t wanted_end = wanted.begin + wanted.n_bytes;
    uint64_t begin = 0;  // of a piece in the table
    for (const ArrangedTensor::Piece& p : tensor.pieces) {
      const uint64_t end = begin + p.n_bytes;
      const uint64_t from = std::max(begin, wanted.begin);
      const uint64_t until = std::min(end, wanted_end);
      if (from < until) {
        const size_t before = std::exchange(last, p.tensor);
        if (before != p.tensor) inputs_.release(before);
        TRY_ASSIGN(const Bytes bytes,
                   inputs_.read_range(p.tensor, p.begin_byte + from - begin, until - from));
        std::memcpy(to + (from - wanted.begin), bytes.data(), bytes.size());
        if (!inputs_.gather(p.tensor).empty() || scales_of(p) != std::vector<float>{1.0f}) {
          return fail(ErrorCode::kUnsupported,
                      fmt::format("tensor {} has scales or an order of columns of its own, "
                                  "expected a plain piece of a table",
                                  quoted(inputs_.name_in_file(p.tensor))));
        }
      }
      begin = end;
    }
    return {};
  }

  Result<void> assemble(const ArrangedTensor& tensor, Made& made) {
    std::byte* to = made.allocate(0, tensor.info.n_bytes);
    std::memset(to, 0, tensor.n_zeros * sizeof(float));
    to += tensor.n_zeros * sizeof(float);
    for (const ArrangedTensor::Piece& p : tensor.pieces) {
      TRY_ASSIGN(const Bytes from, inputs_.read_range(p.tensor, p.begin_byte, p.n_bytes));
      to +=
          add_piece(tensor, p, {inputs_.tensors()[p.tensor].type, scales_of(p).front()}, from, to);
      TRY(note_order(p.tensor, tensor.pieces.front().tensor, made));
    }
    CHECK(to == made.memory.data() + made.memory.size());
    return note_scales(tensor, made);
  }

  // Writes a piece as the arrangement requires. Returns the number of bytes written.
  static size_t add_piece(const ArrangedTensor& tensor, const ArrangedTensor::Piece& p,
                          PieceValues of, Bytes from, std::byte* to) {
    if (tensor.arrangement == Arrangement::kAsIs || p.keeps_rows) {
      std::memcpy(to, from.data(), from.size());
      return from.size();
    }
    if (tensor.arrangement == Arrangement::kInt32) {
      for (size_t at = 0; at < from.size(); at += sizeof(int64_t)) {
        int64_t number;
        std::memcpy(&number, from.data() + at, sizeof(number));
        const auto narrow = static_cast<int32_t>(std::clamp<int64_t>(
            number, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
        std::memcpy(to + at / 2, &narrow, sizeof(narrow));
      }
      return from.size() / 2;
    }
    if (tensor.arrangement == Arrangement::kPairedRows) {
      pair_rows(from, tensor.head_dim, tensor.info.n_bytes / tensor.info.shape.front(), to);
      return from.size();
    }
    if (tensor.arrangement == Arrangement::kTransposed) {
      return transpose(of, from, tensor.head_dim, to);
    }
    if (tensor.arrangement == Arrangement::kPermutedColumns) {
      permute_columns(from, tensor.order, tensor.info.shape.front(), to);
      return from.size();
    }
    std::vector<float> values(from.size() / traits(of.type).block_bytes);
    dequantize_row(of.type, from.data(), values);
    if (tensor.arrangement == Arrangement::kNegativeExp) {
      for (float& value : values) value = static_cast<float>(-std::exp(double{value}));
    }
    if (tensor.arrangement == Arrangement::kExp) {
      for (float& value : values) value = static_cast<float>(std::exp(double{value}));
    }
    if (tensor.arrangement == Arrangement::kReciprocalExp) {
      for (float& value : values) value = static_cast<float>(std::exp(-double{value}));
    }
    if (tensor.arrangement == Arrangement::kFloatsPlusOne) {
      for (float& value : values) value += 1.0f;
    }
    const auto bytes = std::as_bytes(std::span(values));
    if (tensor.arrangement == Arrangement::kPairedFloats) {
      pair_rows(bytes, tensor.head_dim, tensor.row_floats * sizeof(float), to);
    } else {
      std::memcpy(to, bytes.data(), bytes.size());
    }
    return bytes.size();
  }

  std::vector<ArrangedTensor> tensors_;
  std::map<size_t, PiecesRead> read_;
};

}  // namespace

ArrangedTensor unchanged_tensor(const TensorSource& source, size_t index) {
  const TensorInfo& info = source.tensors()[index];
  return {.info = info, .pieces = {{index, 0, info.n_bytes}}, .values = {}};
}

std::expected<ArrangedTensor, size_t> stack_of(const TensorSource& source, std::string name,
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

void arrange(ModelSource& source, std::vector<ArrangedTensor> tensors) {
  source.add(std::make_unique<RearrangedTensors>(source.top(), std::move(tensors)));
}

}  // namespace kvik
