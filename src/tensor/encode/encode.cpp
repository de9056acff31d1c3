#include "tensor/encode/encode.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/encode/encoder.h"

namespace kvik {
namespace {

using encode::Encoder;

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Encoder* find_encoder(ElementType type) {
  for (const std::span<const Encoder> encoders :
       {encode::block_encoders(), encode::super_block_encoders()}) {
    const auto found = std::ranges::find(encoders, type, &Encoder::type);
    if (found != encoders.end()) return &*found;
  }
  return nullptr;
}

bool is_float(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

}  // namespace

bool can_encode(ElementType type) { return is_float(type) || find_encoder(type) != nullptr; }

void encode_row(ElementType type, std::span<const float> values, std::span<const float> importance,
                std::byte* out) {
  static const std::string_view isa = has_avx512() ? "avx512" : has_avx2() ? "avx2" : "baseline";
  CHECK(encode_row_with(isa, type, values, importance, out));
}

bool encode_row_with(std::string_view isa, ElementType type, std::span<const float> values,
                     std::span<const float> importance, std::byte* out) {
  CHECK(importance.empty() || importance.size() == values.size());
  if (is_float(type)) {
    quantize_row(type, values, out);
    return true;
  }
  const Encoder* encoder = find_encoder(type);
  CHECK(encoder && values.size() % traits(type).block_elements == 0);
  const encode::Row row{values, importance, out};
  if (isa == "avx512" && has_avx512()) {
    encoder->avx512(row);
  } else if (isa == "avx2" && has_avx2()) {
    encoder->avx2(row);
  } else if (isa == "baseline") {
    encoder->baseline(row);
  } else {
    return false;
  }
  return true;
}

}  // namespace kvik
