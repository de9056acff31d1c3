#include "format/hf/xielu.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

constexpr std::string_view kPart = ".mlp.act_fn.";
constexpr std::string_view kParameters[] = {"alpha_p", "alpha_n", "beta", "eps"};

Result<float> read_number(ModelSource& source, const std::string& name) {
  const auto index = source.find(name);
  if (!index) return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
  const TensorInfo& info = source.tensors()[*index];
  if (info.n_elements() != 1 || !can_dequantize(info.type) ||
      traits(info.type).block_elements != 1) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' has {} elements of type {}, expected one number", name,
                            info.n_elements(), name_of(info.type)));
  }
  TRY_ASSIGN(const auto bytes, source.read_range(*index, 0, info.n_bytes));
  float number = 0;
  dequantize_row(info.type, bytes.data(), std::span(&number, 1));
  source.release(*index);
  return number;
}

}  // namespace

bool is_of_xielu(std::string_view tensor) { return tensor.contains(kPart); }

Result<void> read_xielu(ModelSource& source, const std::string& architecture, Metadata& metadata) {
  TRY_ASSIGN(const auto n_layers, metadata.get_uint(architecture + ".block_count"));
  for (const std::string_view parameter : kParameters) {
    std::vector<double> values;
    for (uint64_t layer = 0; layer < n_layers.value_or(0); ++layer) {
      const std::string name = fmt::format("model.layers.{}{}{}", layer, kPart, parameter);
      TRY_ASSIGN(const float value, read_number(source, name));
      values.push_back(value);
    }
    metadata.insert(fmt::format("xielu.{}", parameter), std::move(values));
  }
  return {};
}

}  // namespace kvik::hf
