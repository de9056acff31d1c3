#include "study/plan/type_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/quantity.h"
#include "format/weight_mix.h"

namespace kvik {
namespace {

TypeSize size_as(const ModelSource& source, std::string name,
                 const std::function<ElementType(const TensorInfo&)>& type_of) {
  TypeSize size{.type = std::move(name)};
  uint64_t n_values = 0;
  for (const TensorInfo& tensor : source.tensors()) {
    size.n_bytes += bytes_of(type_of(tensor), tensor.shape).value_or(0);
    n_values += tensor.n_elements();
  }
  if (n_values == 0) return size;
  size.bits_per_weight = 8.0 * static_cast<double>(size.n_bytes) / static_cast<double>(n_values);
  return size;
}

}  // namespace

std::vector<TypeSize> type_sizes(const ModelSource& source) {
  std::vector<TypeSize> sizes = {
      size_as(source, "f32", [](const TensorInfo&) { return ElementType::kF32; })};
  for (const MixTarget& target : mix_targets()) {
    const WeightMix mix(target, WeightMix::Kind::kMixed, source.tensors());
    sizes.push_back(size_as(source, name_of(target.type),
                            [&](const TensorInfo& tensor) { return mix.choose(tensor).type; }));
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &TypeSize::n_bytes);
  return sizes;
}

std::string type_sizes_text(std::span<const TypeSize> sizes, uint64_t memory_bytes) {
  std::string out = fmt::format("weights as `kvik quantize` makes them\n{:<8}{:>14}{:>17}  fit\n",
                                "type", "size", "bits a weight");
  for (const TypeSize& size : sizes) {
    out += fmt::format("{:<8}{:>14}{:>17.2f}  {}\n", size.type, format_bytes(size.n_bytes),
                       size.bits_per_weight, size.n_bytes <= memory_bytes ? "yes" : "no");
  }
  return out;
}

std::string type_sizes_json(std::span<const TypeSize> sizes) {
  std::string out = "[";
  for (const TypeSize& size : sizes) {
    out += fmt::format("{}{{\"type\":\"{}\",\"bytes\":{},\"bits_per_weight\":{:.4f}}}",
                       out.size() > 1 ? "," : "", size.type, size.n_bytes, size.bits_per_weight);
  }
  return out + "]";
}

}  // namespace kvik
