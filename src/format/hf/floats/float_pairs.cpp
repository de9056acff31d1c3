#include "format/hf/floats/float_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "format/hf/quantization.h"
#include "format/hf/stored_types.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPacked = ".weight_packed";
constexpr std::string_view kFp8Scales[] = {"_scale_inv", "_scale"};
constexpr std::string_view kBareScale = ".scale";  // in place of ".weight", DeepSeek V4
constexpr std::string_view kOfExperts = ".experts.";

// Element types as safetensors files name them. Elements of 4 bits are pairs in bytes. Exponents
// are bytes where the writer's library has no type for them (ModelOpt, compressed-tensors).
using StoredTypes = std::span<const std::string_view>;
constexpr std::string_view kE4m3[] = {"F8_E4M3"};
constexpr std::string_view kPairs[] = {"I8", "U8"};
constexpr std::string_view kExponents[] = {"F8_E8M0", "U8"};
constexpr std::string_view kExponentsOrFloats[] = {"F8_E8M0", "U8", "F32", "F16", "BF16"};

// Returns the type whose blocks have one scale per row; bf16 if there is none.
ElementType fp8_type(const BlockFloats& how, uint64_t n_cols) {
  const uint64_t of_scale = how.block_cols ? how.block_cols : n_cols;
  for (const ElementType type : {ElementType::kFp8, ElementType::kFp8G32}) {
    const uint64_t n = traits(type).block_elements;
    if (n_cols % n == 0 && of_scale % n == 0) return type;
  }
  return ElementType::kBF16;
}

ElementType nvfp4_type(uint64_t n_cols) {
  const bool fits = n_cols % traits(ElementType::kNvFp4).block_elements == 0;
  return fits ? ElementType::kNvFp4 : ElementType::kBF16;
}

class Pairing {
 public:
  Pairing(const ModelSource& base, const BlockFloats& how) : base_(base), how_(how) {
    const auto all = base.tensors();
    for (size_t i = 0; i < all.size(); ++i) by_name_.emplace(all[i].name, i);
    has_bare_scales_ = std::ranges::any_of(all, [&](const TensorInfo& info) {
      return is_fp8() && info.name.ends_with(kBareScale) && is_scale(info.name);
    });
    has_inverse_scales_ = std::ranges::none_of(
        all, [](const TensorInfo& info) { return info.name.ends_with(".weight_scale"); });
  }

  Result<FloatPairs> pair() {
    for (size_t i = 0; i < base_.tensors().size(); ++i) TRY(add(i));
    return std::move(pairs_);
  }

 private:
  using Kind = BlockFloats::Kind;

  // Returns whether scales have the names of kFp8.
  bool is_fp8() const { return how_.kind == Kind::kFp8; }

  Kind kind_of(std::string_view name) const {
    const bool is_fp4 = how_.has_fp4_experts && name.find(kOfExperts) != std::string_view::npos;
    return is_fp4 ? Kind::kMxFp4 : how_.kind;
  }

  Result<void> add(size_t i) {
    const TensorInfo& info = base_.tensors()[i];
    if (is_scale(info.name) || is_of_activations(info.name)) return {};
    FloatMatrix tensor{.kind = kind_of(info.name), .scales = scales_of(info)};
    TensorInfo made = info;
    if (tensor.scales) {
      TRY(check_shapes(info, tensor.kind, *tensor.scales));
      TRY(check_types(tensor, i));
      if (tensor.kind != Kind::kFp8) made.shape.back() *= 2;
      if (how_.is_packed) made.name = fmt::format("{}{}", stem_of(info.name), kWeight);
      if (tensor.kind == Kind::kNvFp4) {
        TRY_ASSIGN(tensor.scale, scale_of_all(info.name));
      }
      made.type = type_of(tensor.kind, made.shape.back());
      made.n_bytes = *bytes_of(made.type, made.shape);
    } else if (is_fp8()) {
      TRY(check_unscaled(i));
    }
    pairs_.outputs.push_back({std::move(made), i, tensor.scales.has_value()});
    pairs_.tensors.push_back(tensor);
    return {};
  }

  // Checks that a tensor without scales needs none, and is not the scales of a missing matrix.
  Result<void> check_unscaled(size_t index) const {
    const std::string& name = base_.tensors()[index].name;
    const std::string_view stored = base_.stored_type(index);
    if (name.ends_with(kBareScale) && stored == kExponents[0]) {
      return missing(fmt::format("{}{}", without(name, kBareScale), kWeight), name);
    }
    const bool is_fp4 = kind_of(name) == Kind::kMxFp4;
    const bool is_pair = is_fp4 && std::ranges::find(kPairs, stored) != std::end(kPairs);
    if (!is_pair && stored != kE4m3[0]) return {};
    const bool is_bare = name.ends_with(kWeight) && (is_fp4 || has_bare_scales_);
    const std::string scales = is_bare
                                   ? fmt::format("{}{}", stem_of(name), kBareScale)
                                   : name + std::string(kFp8Scales[has_inverse_scales_ ? 0 : 1]);
    if (find(scales)) return {};  // a stack of another shape
    return missing(scales, name);
  }

  ElementType type_of(Kind kind, uint64_t n_cols) const {
    if (kind == Kind::kMxFp4) return ElementType::kMXFP4;  // rows are whole groups
    return kind == Kind::kFp8 ? fp8_type(how_, n_cols) : nvfp4_type(n_cols);
  }

  std::optional<size_t> find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<size_t> scales_of(const TensorInfo& info) const {
    const bool is_stack = is_fp8() && info.shape.size() == 3;
    if (how_.is_packed) {
      return info.name.ends_with(kPacked) ? find(fmt::format("{}.weight_scale", stem_of(info.name)))
                                          : std::nullopt;
    }
    if (!info.name.ends_with(kWeight) && !is_stack) return std::nullopt;
    if (!is_fp8()) return find(info.name + "_scale");
    for (const std::string_view ending : kFp8Scales) {
      if (const auto found = find(fmt::format("{}{}", info.name, ending))) return found;
    }
    if (is_stack) return std::nullopt;
    return find(fmt::format("{}{}", stem_of(info.name), kBareScale));
  }

  static std::string_view without(std::string_view name, std::string_view ending) {
    return name.substr(0, name.size() - ending.size());
  }

  // Returns "NAME" of the tensor that has a matrix's elements.
  std::string_view stem_of(std::string_view name) const {
    return without(name, how_.is_packed ? kPacked : kWeight);
  }

  // Returns whether the tensor is the scale of an existing matrix or stack.
  bool is_scale(std::string_view name) const {
    if (!is_fp8()) return name.ends_with(".weight_scale") || name.ends_with(of_all());
    if (name.ends_with(kBareScale)) {
      return find(fmt::format("{}{}", without(name, kBareScale), kWeight)).has_value();
    }
    return std::ranges::any_of(kFp8Scales, [&](std::string_view ending) {
      if (!name.ends_with(ending)) return false;
      const std::string stem(without(name, ending));
      return stem.ends_with(kWeight) || find(stem);
    });
  }

  std::string_view of_all() const {
    return how_.is_packed ? ".weight_global_scale" : ".weight_scale_2";
  }

  Result<size_t> scale_of_all(std::string_view weight) const {
    const std::string name = fmt::format("{}{}", stem_of(weight), of_all());
    const auto found = find(name);
    if (!found) return missing(name, weight);
    if (base_.tensors()[*found].n_elements() != 1) return wrong_shape(*found, {1});
    TRY(check_floats(*found));
    return *found;
  }

  static std::unexpected<Error> missing(std::string_view name, std::string_view weight) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} is missing beside {}", quoted(name), quoted(weight)));
  }

  Result<void> check_shapes(const TensorInfo& weight, Kind kind, size_t index) const {
    const TensorInfo& scales = base_.tensors()[index];
    const auto& shape = weight.shape;
    const bool is_right = shape.size() == 2 || (is_fp8() && shape.size() == 3);
    if (!is_right || weight.n_bytes != weight.n_elements()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} has scales and the shape [{}] of {}, expected a matrix of "
                              "bytes",
                              quoted(weight.name), fmt::join(shape, ", "), name_of(weight.type)));
    }
    if (kind != Kind::kFp8) return check_fp4(weight, kind, index);
    const auto blocks = [](uint64_t n, uint64_t of) { return of == 0 ? 1 : n_blocks_of(n, of); };
    std::vector<uint64_t> expected = shape;
    expected.back() = blocks(shape.back(), how_.block_cols);
    uint64_t& n_high = expected[expected.size() - 2];
    n_high = blocks(n_high, how_.block_rows);
    const bool is_whole = how_.block_rows == 0 && how_.block_cols == 0;
    const uint64_t n = scales.n_elements();
    const bool is_one_each = is_whole && (n == 1 || n == n_matrices(weight));
    if (scales.shape != expected && !is_one_each) return wrong_shape(index, expected);
    return {};
  }

  // Checks the scales of pairs of 4-bit floats.
  Result<void> check_fp4(const TensorInfo& weight, Kind kind, size_t index) const {
    const uint64_t n_cols = 2 * weight.shape.back();
    const uint64_t group = kind == Kind::kMxFp4 ? kMxFp4Columns : kNvFp4Columns;
    if (n_cols % group != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} has rows of {} 4-bit floats, expected a multiple of {}",
                              quoted(weight.name), n_cols, group));
    }
    std::vector<uint64_t> expected = weight.shape;
    expected.back() = n_cols / group;
    if (base_.tensors()[index].shape != expected) return wrong_shape(index, expected);
    return {};
  }

  // Checks the types of the elements and of the scales: numbers of another kind would be read as
  // small floats, too.
  Result<void> check_types(const FloatMatrix& tensor, size_t index) const {
    const bool is_fp8 = tensor.kind == Kind::kFp8;
    TRY(check_stored_type(base_, index, is_fp8 ? StoredTypes(kE4m3) : StoredTypes(kPairs)));
    return check_stored_type(base_, *tensor.scales,
                             is_fp8                        ? kExponentsOrFloats
                             : tensor.kind == Kind::kMxFp4 ? StoredTypes(kExponents)
                                                           : StoredTypes(kE4m3));
  }

  Result<void> check_floats(size_t index) const {
    const TensorInfo& info = base_.tensors()[index];
    if (traits(info.type).block_elements == 1 && can_dequantize(info.type)) return {};
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} is of type {}, expected f32, f16 or bf16", quoted(info.name),
                            name_of(info.type)));
  }

  std::unexpected<Error> wrong_shape(size_t index, const std::vector<uint64_t>& expected) const {
    const TensorInfo& info = base_.tensors()[index];
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected [{}]", quoted(info.name),
                            fmt::join(info.shape, ", "), fmt::join(expected, ", ")));
  }

  const ModelSource& base_;
  const BlockFloats& how_;
  std::unordered_map<std::string_view, size_t> by_name_;
  bool has_bare_scales_ = false, has_inverse_scales_ = true;  // names of kFp8
  FloatPairs pairs_;
};

}  // namespace

Result<FloatPairs> pair_floats(const ModelSource& source, const BlockFloats& how) {
  return Pairing(source, how).pair();
}

uint64_t n_matrices(const TensorInfo& info) {
  return info.shape.size() == 3 ? info.shape.front() : 1;
}

uint64_t n_blocks_of(uint64_t n, uint64_t of) { return n / of + (n % of != 0); }

}  // namespace kvik::hf
