#include "format/hf/keys/kda_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalogue/limits.h"

namespace kvik::hf {

Result<void> read_kda_sizes(const StatedKey& head_dim, const StatedKey& kernel_size,
                            uint32_t n_heads, GgufKeys& keys) {
  const uint64_t most = std::min<uint64_t>(kMaxHeadDim, kMaxDim / 4 / n_heads);
  TRY_ASSIGN(const auto dim, head_dim.of.number(head_dim.name));
  if (!dim || *dim == 0 || *dim % kStateLanes != 0 || *dim > most) {
    return head_dim.of.unexpected_value(
        head_dim.name, fmt::format("a multiple of {}, at most {}", kStateLanes, most));
  }
  TRY_ASSIGN(const auto n_taps, kernel_size.of.number(kernel_size.name));
  if (!n_taps || *n_taps < 2 || *n_taps > kMaxKernelSize) {
    return kernel_size.of.unexpected_value(kernel_size.name,
                                           fmt::format("an integer from 2 to {}", kMaxKernelSize));
  }
  keys.number("kda.head_dim", *dim);
  keys.number("ssm.conv_kernel", *n_taps);
  return {};
}

}  // namespace kvik::hf
