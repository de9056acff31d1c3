#include "tensor/encode/block_formats.h"
#include "tensor/encode/encoder.h"

namespace kvik::encode {

std::span<const Encoder> block_encoders() {
  static constexpr Encoder kEncoders[] = {
      encoder<FormatQ8_0>(ElementType::kQ8_0), encoder<FormatQ4_0>(ElementType::kQ4_0),
      encoder<FormatQ4_1>(ElementType::kQ4_1), encoder<FormatQ5_0>(ElementType::kQ5_0),
      encoder<FormatQ5_1>(ElementType::kQ5_1), encoder<FormatIQ4NL>(ElementType::kIQ4_NL),
  };
  return kEncoders;
}

}  // namespace kvik::encode
