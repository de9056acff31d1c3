#include "tensor/encode/encoder.h"
#include "tensor/encode/super_block_formats.h"

namespace kvik::encode {

std::span<const Encoder> super_block_encoders() {
  static constexpr Encoder kEncoders[] = {
      encoder<FormatQ2_K>(ElementType::kQ2_K), encoder<FormatQ3_K>(ElementType::kQ3_K),
      encoder<FormatQ4_K>(ElementType::kQ4_K), encoder<FormatQ5_K>(ElementType::kQ5_K),
      encoder<FormatQ6_K>(ElementType::kQ6_K),
  };
  return kEncoders;
}

}  // namespace kvik::encode
