#include "tensor/encode/encode.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/blocks.h"
#include "tensor/encode/search.h"

namespace kvik {
namespace {

constexpr size_t kMaxBlocks = 16;  // maximum number of blocks of a search

bool has_avx512() {
  return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool is_float(ElementType type) { return can_dequantize(type) && traits(type).block_elements == 1; }

// The blocks of a row as one search encodes them.
struct RowEncoder {
  const BlockFormat& format;
  void (*run)(const SearchTask& task);
  std::span<const float> values, importance;
  std::vector<float>& fitted;  // SearchTask::fitted of all searches

  // out: the row's blocks; null if the search does not know the row's scale yet. row: null if there
  // is none
  void encode(RowUnit* row, std::byte* out) const {
    const size_t n_values = traits(format.type).block_elements;
    const size_t step = format.encoding.search->n_blocks * n_values;
    BlockNumbers numbers[kMaxBlocks];
    if (row) fitted.resize((values.size() + step - 1) / step * kFittedScales);
    for (size_t first = 0; first < values.size(); first += step) {
      const size_t n = std::min(step, values.size() - first);
      run({format, values.subspan(first, n),
           importance.empty() ? importance : importance.subspan(first, n), numbers, row,
           row ? fitted.data() + first / step * kFittedScales : nullptr});
      for (size_t b = 0; out && b < n / n_values; ++b, out += format.block.bytes) {
        format.block.write(numbers[b], out);
      }
    }
  }
};

// Sets the scale of a row, as the file has it. If that would become zero, it is the smallest
// number.
RowUnit row_unit_of(const BlockFormat& format, float unit, BlockNumbers& header) {
  set_row_scale(format, unit, header);
  if (unit != 0 && scale_of(format, header) == 0) {
    set_row_scale(format, std::copysign(0x1p-24f, unit), header);
  }
  return {.is_known = true, .unit = scale_of(format, header)};
}

// The scale of a row is that of its largest sub-block divided by the lowest factor, or the
// least-squares scale for the levels and factors that follow from it, if that has less error.
void encode_with_row_scale(const RowEncoder& encoder, std::byte* out) {
  const BlockFormat& format = encoder.format;
  RowUnit unknown;
  encoder.encode(&unknown, nullptr);
  BlockNumbers header, other_header;
  RowUnit row = row_unit_of(format, unknown.largest / format.encoding.factors.low, header);
  std::byte* blocks = out + bytes_of(format.row_scale);
  encoder.encode(&row, blocks);
  if (row.wqq > 0) {
    RowUnit other = row_unit_of(format, row.wqx / row.wqq, other_header);
    std::vector<std::byte> again(encoder.values.size() / traits(format.type).block_elements *
                                 format.block.bytes);
    encoder.encode(&other, again.data());
    if (other.error < row.error) {
      header = other_header;
      std::ranges::copy(again, blocks);
    }
  }
  write_row_scale(format, header, out);
}

}  // namespace

bool can_encode(ElementType type) {
  const BlockFormat* format = block_format(type);
  return is_float(type) || (format && format->encoding.search);
}

void encode_row(ElementType type, std::span<const float> values, std::span<const float> importance,
                std::byte* out) {
  static const std::string_view isa = has_avx512() ? "avx512" : "baseline";
  CHECK(encode_row_with(isa, type, values, importance, out));
}

bool encode_row_with(std::string_view isa, ElementType type, std::span<const float> values,
                     std::span<const float> importance, std::byte* out) {
  CHECK(importance.empty() || importance.size() == values.size());
  if (is_float(type)) {
    quantize_row(type, values, out);
    return true;
  }
  if (isa != "baseline" && !(isa == "avx512" && has_avx512())) return false;
  const BlockFormat* format = block_format(type);
  CHECK(format && format->encoding.search);
  const size_t n_values = traits(type).block_elements;
  CHECK(values.size() % n_values == 0);
  const Search& search = *format->encoding.search;
  std::vector<float> fitted;
  const RowEncoder encoder{*format, isa == "avx512" ? search.avx512 : search.baseline, values,
                           importance, fitted};
  if (format->row_scale == RowScale::kNone) {
    encoder.encode(nullptr, out);
  } else {
    encode_with_row_scale(encoder, out);
  }
  return true;
}

}  // namespace kvik
