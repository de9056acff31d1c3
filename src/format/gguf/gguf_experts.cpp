#include "format/gguf/gguf_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr std::string_view kEnding = ".weight";
constexpr std::string_view kParts[] = {".ffn_gate.", ".ffn_up.", ".ffn_down."};

struct ExpertTensor {
  std::string stack;  // "blk.0.ffn_gate_exps.weight"
  uint64_t expert;
};

// Parses names such as "blk.0.ffn_gate.3.weight"; std::nullopt for other names.
std::optional<ExpertTensor> parse(std::string_view name) {
  if (!name.starts_with(kLayerPrefix) || !name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  for (const std::string_view part : kParts) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    const std::string_view number = name.substr(at + part.size());
    uint64_t expert = 0;
    const auto [end, error] = std::from_chars(number.begin(), number.end(), expert);
    if (error != std::errc() || end != number.end() || number.empty()) return std::nullopt;
    const std::string_view stem = name.substr(0, at + part.size() - 1);
    return ExpertTensor{fmt::format("{}_exps{}", stem, kEnding), expert};
  }
  return std::nullopt;
}

std::unexpected<Error> unlike(const ModelSource& source, size_t index) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}': tensor {} is not like that of the expert before it, expected "
                          "matrices of one shape and type, numbered from 0 on",
                          source.label(), quoted(source.tensors()[index].name)));
}

Result<ArrangedTensor> stack(const ModelSource& source, const std::string& name,
                             const std::map<uint64_t, size_t>& experts) {
  std::vector<size_t> matrices;
  for (const auto& [expert, index] : experts) {
    if (expert != matrices.size()) return unlike(source, index);
    matrices.push_back(index);
  }
  auto tensor = stack_of(source, name, matrices);
  if (!tensor) return unlike(source, matrices[tensor.error()]);
  return *std::move(tensor);
}

}  // namespace

Result<void> stack_gguf_experts(ModelSource& source) {
  std::map<std::string, std::map<uint64_t, size_t>> stacks;  // index of each expert's tensor
  std::vector<ArrangedTensor> tensors;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    if (const auto part = parse(source.tensors()[i].name)) {
      stacks[part->stack][part->expert] = i;
    } else {
      tensors.push_back(unchanged_tensor(source, i));
    }
  }
  if (stacks.empty()) return {};
  for (const auto& [name, experts] : stacks) {
    TRY_ASSIGN(ArrangedTensor tensor, stack(source, name, experts));
    tensors.push_back(std::move(tensor));
  }
  arrange(source, std::move(tensors));
  return {};
}

}  // namespace kvik
