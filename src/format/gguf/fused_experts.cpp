#include "format/gguf/fused_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr std::string_view kBoth = ".ffn_gate_up_exps.weight";

bool is_fused(const TensorInfo& info) {
  return info.name.starts_with(kLayerPrefix) && info.name.ends_with(kBoth);
}

// Returns the first or second half of each expert's rows.
ArrangedTensor half_of(const ModelSource& source, size_t index, uint64_t half,
                       std::string_view name) {
  const TensorInfo& info = source.tensors()[index];
  ArrangedTensor tensor;
  tensor.info = info;
  tensor.info.name = info.name.substr(0, info.name.size() - kBoth.size()) + std::string(name);
  tensor.info.shape[1] /= 2;
  tensor.info.n_bytes /= 2;
  const uint64_t n_experts = info.shape[0];
  const uint64_t half_bytes = info.n_bytes / n_experts / 2;
  for (uint64_t expert = 0; expert < n_experts; ++expert) {
    tensor.pieces.push_back({index, (2 * expert + half) * half_bytes, half_bytes});
  }
  return tensor;
}

}  // namespace

Result<void> split_gguf_experts(ModelSource& source) {
  std::vector<ArrangedTensor> tensors;
  bool has_fused = false;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    if (!is_fused(info)) {
      tensors.push_back(unchanged_tensor(source, i));
      continue;
    }
    if (info.shape.size() != 3 || info.shape[0] == 0 || info.shape[1] % 2 != 0) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format(
              "'{}': tensor {} has the shape [{}], expected [n_experts, 2 · n_rows, n_cols]",
              source.label(), quoted(info.name), fmt::join(info.shape, ", ")));
    }
    has_fused = true;
    tensors.push_back(half_of(source, i, 0, ".ffn_gate_exps.weight"));
    tensors.push_back(half_of(source, i, 1, ".ffn_up_exps.weight"));
  }
  if (!has_fused) return {};
  arrange(source, std::move(tensors));
  return {};
}

}  // namespace kvik
