#include "tensor/encode/encode.h"

#include <algorithm>
#include <span>

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
  const auto run = isa == "avx512" ? search.avx512 : search.baseline;
  const size_t step = search.n_blocks * n_values;
  BlockNumbers numbers[kMaxBlocks];
  for (size_t first = 0; first < values.size(); first += step) {
    const size_t n = std::min(step, values.size() - first);
    run({*format, values.subspan(first, n),
         importance.empty() ? importance : importance.subspan(first, n), numbers});
    for (size_t b = 0; b < n / n_values; ++b, out += format->block.bytes) {
      format->block.write(numbers[b], out);
    }
  }
  return true;
}

}  // namespace kvik
