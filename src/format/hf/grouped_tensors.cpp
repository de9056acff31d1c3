#include "format/hf/grouped_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/hf/group_words.h"
#include "format/hf/stored_types.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kMaxExtent = 1 << 24;
constexpr std::string_view kInt8[] = {"I8"};

// A quantized matrix: the indices of its parts among the inputs.
struct Matrix {
  size_t quants = 0, scales = 0;
  std::optional<size_t> zeros;
  std::optional<size_t> groups;  // group of each column
  std::optional<size_t> shape;   // states rows and columns
  uint64_t n_rows = 0, n_cols = 0;
  uint64_t group = 0;
};

template <class T>
std::span<const T> as(Bytes bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

bool is_finite(uint16_t scale, ElementType type) {
  const uint16_t exponent = type == ElementType::kBF16 ? 0x7f80 : 0x7c00;
  return (scale & exponent) != exponent;
}

// Transposes [n, n_cols] to [n_cols, n].
template <class T>
std::vector<T> rotated(const std::vector<T>& rows, uint64_t n_cols) {
  std::vector<T> out(rows.size());
  const uint64_t n = rows.size() / n_cols;
  for (uint64_t row = 0; row < n; ++row) {
    for (uint64_t col = 0; col < n_cols; ++col) out[col * n + row] = rows[row * n_cols + col];
  }
  return out;
}

// Finds the tensors of each matrix. Used while a folder is opened.
class Grouping {
 public:
  Grouping(TensorSource& source, const Quantization& how, const BiasNames& biases)
      : source_(source), how_(how), biases_(biases), is_part_(source.tensors().size()) {
    for (size_t i = 0; i < is_part_.size(); ++i) by_name_.emplace(source.tensors()[i].name, i);
  }

  struct Outcome {
    std::vector<Matrix> matrices;
    std::vector<TensorTransform::Output> outputs;  // the matrices, then the others
  };

  Result<Outcome> run() {
    Outcome out;
    const auto all = source_.tensors();
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_row_by_row() && is_of_activations(all[i].name)) is_part_[i] = true;
      const std::string_view end = how_.is_unpacked  ? ".weight"
                                   : is_row_by_row() ? ".weight_packed"
                                                     : ".qweight";
      if (!all[i].name.ends_with(end)) continue;
      if (how_.is_unpacked && all[i].type != ElementType::kI8) continue;  // is not quantized
      const std::string name = all[i].name.substr(0, all[i].name.size() - end.size());
      TRY_ASSIGN(const Matrix matrix, matrix_of(i, name));
      TRY(drop_bias(name));
      out.matrices.push_back(matrix);
      const ElementType type = *group_type(how_.bits, matrix.group, matrix.n_cols);
      const std::vector<uint64_t> shape = {matrix.n_rows, matrix.n_cols};
      out.outputs.push_back({{name + ".weight", type, shape, *bytes_of(type, shape)}, i, true});
    }
    if (!has_optional_bias_) {
      for (const size_t bias : optional_biases_) is_part_[bias] = true;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (!is_part_[i]) out.outputs.push_back({all[i], i});
    }
    return out;
  }

 private:
  std::optional<size_t> find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }

  bool is_row_by_row() const { return how_.packing == Quantization::Packing::kRowByRow; }

  Result<size_t> part(const std::string& name, std::initializer_list<ElementType> types,
                      const std::vector<uint64_t>& shape) {
    const auto index = find(name);
    if (!index) return fail(ErrorCode::kCorrupt, fmt::format("tensor {} is missing", quoted(name)));
    const TensorInfo& info = source_.tensors()[*index];
    if (std::ranges::count(types, info.type) == 0 || info.shape != shape) {
      std::vector<std::string_view> expected;
      for (const ElementType type : types) expected.push_back(name_of(type));
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} is of type {} and shape [{}], expected {} and [{}]",
                              quoted(name), name_of(info.type), fmt::join(info.shape, ", "),
                              fmt::join(expected, " or "), fmt::join(shape, ", ")));
    }
    is_part_[*index] = true;
    return *index;
  }

  Result<Matrix> matrix_of(size_t index, const std::string& name) {
    const TensorInfo& quants = source_.tensors()[index];
    const uint64_t per_word = how_.is_unpacked ? 1 : 32 / how_.bits;
    const ElementType type = how_.is_unpacked ? ElementType::kI8 : ElementType::kI32;
    const bool is_awq = how_.packing == Quantization::Packing::kAlongOutputs;
    if (quants.type != type || quants.shape.size() != 2 ||
        std::ranges::max(quants.shape) > kMaxExtent) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} is of type {} and shape [{}], expected {} and two axes "
                              "of at most {}",
                              quoted(quants.name), name_of(quants.type),
                              fmt::join(quants.shape, ", "), name_of(type), kMaxExtent));
    }
    if (how_.is_unpacked) TRY(check_stored_type(source_, index, kInt8));
    Matrix matrix;
    matrix.quants = index;
    const uint64_t in_rows = is_row_by_row() ? quants.shape[0] : quants.shape[1];
    const uint64_t in_cols = is_row_by_row() ? quants.shape[1] : quants.shape[0];
    matrix.n_cols = in_cols * (is_awq ? 1 : per_word);
    matrix.n_rows = in_rows * (is_awq ? per_word : 1);
    matrix.group = how_.group_size.value_or(matrix.n_cols);
    const uint64_t most_even = is_row_by_row() ? 1 : per_word;
    if (matrix.n_rows % most_even != 0 || !group_type(how_.bits, matrix.group, matrix.n_cols)) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("tensor {} is of {} rows and {} columns in groups of {}, expected "
                      "a multiple of {} rows and of 32 columns",
                      quoted(quants.name), matrix.n_rows, matrix.n_cols, matrix.group, most_even));
    }
    is_part_[index] = true;
    return is_row_by_row() ? with_row_parts(matrix, name) : with_parts(matrix, name);
  }

  Result<Matrix> with_parts(Matrix matrix, const std::string& name) {
    using enum ElementType;
    const uint64_t n_groups = (matrix.n_cols + matrix.group - 1) / matrix.group;
    TRY_ASSIGN(matrix.zeros,
               part(name + ".qzeros", {kI32}, {n_groups, matrix.n_rows * how_.bits / 32}));
    TRY_ASSIGN(matrix.scales, part(name + ".scales", {kF16}, {n_groups, matrix.n_rows}));
    // "g_idx" is not needed if columns are in order.
    if (how_.packing == Quantization::Packing::kAlongInputs &&
        (how_.is_ordered || find(name + ".g_idx"))) {
      TRY_ASSIGN(matrix.groups, part(name + ".g_idx", {kI32}, {matrix.n_cols}));
    }
    return matrix;
  }

  Result<Matrix> with_row_parts(Matrix matrix, const std::string& name) {
    using enum ElementType;
    const uint64_t n_groups = (matrix.n_cols + matrix.group - 1) / matrix.group;
    const uint64_t zero_rows = (matrix.n_rows * how_.bits + 31) / 32;
    TRY_ASSIGN(matrix.scales,
               part(name + ".weight_scale", {kF16, kBF16}, {matrix.n_rows, n_groups}));
    if (how_.has_zeros) {
      TRY_ASSIGN(matrix.zeros, part(name + ".weight_zero_point", {kI32}, {zero_rows, n_groups}));
    }
    if (find(name + ".weight_shape")) {
      TRY_ASSIGN(matrix.shape, part(name + ".weight_shape", {kI64, kI32}, {2}));
    }
    if (how_.is_ordered || find(name + ".weight_g_idx")) {
      TRY_ASSIGN(matrix.groups, part(name + ".weight_g_idx", {kI32}, {matrix.n_cols}));
    }
    return matrix;
  }

  // Drops the bias of a matrix if the model has none there and the values are zero. Any other
  // unknown bias is rejected later.
  Result<void> drop_bias(const std::string& name) {
    const std::string bias = name + ".bias";
    const auto index = find(bias);
    const auto ends_so = [&](std::string_view end) { return bias.ends_with(end); };
    if (!index || std::ranges::any_of(biases_.required, ends_so)) return {};
    TRY_ASSIGN(const Bytes bytes, source_.read(*index));
    const bool is_zero = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
    source_.release(*index);
    if (std::ranges::any_of(biases_.optional, ends_so)) {
      optional_biases_.push_back(*index);
      has_optional_bias_ |= !is_zero;
    } else {
      is_part_[*index] = is_zero;
    }
    return {};
  }

  TensorSource& source_;
  const Quantization& how_;
  const BiasNames& biases_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<bool> is_part_;  // part of a matrix, or dropped
  std::vector<size_t> optional_biases_;
  bool has_optional_bias_ = false;  // an optional bias that is not zero
};

class GroupedTensors final : public TensorTransform {
 public:
  GroupedTensors(TensorSource& inputs, const Quantization& how, Grouping::Outcome grouped)
      : TensorTransform(inputs, std::move(grouped.outputs)),
        how_(how),
        matrices_(std::move(grouped.matrices)) {}

  Result<void> make(size_t index, Range, Made& made) override {
    const Matrix& matrix = matrices_[index];
    TRY_ASSIGN(made.gather, order_of(matrix));
    TRY(check_shape(matrix));
    TRY_ASSIGN(const std::vector<uint32_t> zeros, zeros_of(matrix));
    TRY_ASSIGN(const GroupScales scales, scales_of(matrix));
    TRY_ASSIGN(const Bytes quants, inputs_.read(matrix.quants));
    const std::vector<uint32_t> levels =
        how_.is_unpacked ? levels_of(quants) : std::vector<uint32_t>();
    if (scales.factor != 1) made.scales = {scales.factor};
    pack_groups({.how = how_,
                 .n_rows = matrix.n_rows,
                 .n_cols = matrix.n_cols,
                 .group = matrix.group,
                 .quants = how_.is_unpacked ? levels : as<uint32_t>(quants),
                 .zeros = zeros,
                 .scales = scales.halves},
                made.gather, made.allocate(0, info(index).n_bytes));
    inputs_.release(matrix.quants);
    return {};
  }

 private:
  // Returns an empty list if columns are in order.
  Result<std::vector<uint32_t>> order_of(const Matrix& matrix) {
    if (!matrix.groups) return std::vector<uint32_t>();
    TRY_ASSIGN(const Bytes groups, inputs_.read(*matrix.groups));
    auto order = order_by_group(as<int32_t>(groups), matrix.group);
    inputs_.release(*matrix.groups);
    if (order) return order;
    return fail(order.error().code,
                fmt::format("tensor {} {}", quoted(inputs_.tensors()[*matrix.groups].name),
                            order.error().message));
  }

  // Converts signed bytes to words of unsigned levels with zero point 128.
  static std::vector<uint32_t> levels_of(Bytes bytes) {
    std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
    for (uint32_t& word : words) word ^= 0x80808080u;
    return words;
  }

  uint64_t n_groups(const Matrix& matrix) const {
    return (matrix.n_cols + matrix.group - 1) / matrix.group;
  }

  bool is_row_by_row() const { return how_.packing == Quantization::Packing::kRowByRow; }

  // Returns the zero points in the layout of GroupWords.
  Result<std::vector<uint32_t>> zeros_of(const Matrix& matrix) {
    if (!matrix.zeros) {
      const uint64_t n_words = n_groups(matrix) * ((matrix.n_rows * how_.bits + 31) / 32);
      return std::vector<uint32_t>(n_words, how_.bits == 4 ? 0x88888888u : 0x80808080u);
    }
    TRY_ASSIGN(const Bytes bytes, inputs_.read(*matrix.zeros));
    const auto words = as<uint32_t>(bytes);
    std::vector<uint32_t> zeros(words.begin(), words.end());
    inputs_.release(*matrix.zeros);
    return is_row_by_row() ? rotated(zeros, n_groups(matrix)) : zeros;
  }

  Result<GroupScales> scales_of(const Matrix& matrix) {
    const ElementType type = inputs_.tensors()[matrix.scales].type;
    TRY_ASSIGN(const Bytes bytes, inputs_.read(matrix.scales));
    const auto words = as<uint16_t>(bytes);
    GroupScales scales = {.halves = {words.begin(), words.end()}};
    inputs_.release(matrix.scales);
    if (std::ranges::any_of(scales.halves, [&](uint16_t s) { return !is_finite(s, type); })) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor {} holds a scale that is not finite",
                                                   quoted(inputs_.tensors()[matrix.scales].name)));
    }
    if (type == ElementType::kBF16) scales = f16_scales_of(scales.halves);
    if (is_row_by_row()) scales.halves = rotated(scales.halves, n_groups(matrix));
    return scales;
  }

  Result<void> check_shape(const Matrix& matrix) {
    if (!matrix.shape) return {};
    TRY_ASSIGN(const Bytes bytes, inputs_.read(*matrix.shape));
    std::vector<int64_t> stated(2);
    if (inputs_.tensors()[*matrix.shape].type == ElementType::kI64) {
      std::ranges::copy(as<int64_t>(bytes), stated.begin());
    } else {
      std::ranges::copy(as<int32_t>(bytes), stated.begin());
    }
    inputs_.release(*matrix.shape);
    const std::vector<int64_t> packed = {static_cast<int64_t>(matrix.n_rows),
                                         static_cast<int64_t>(matrix.n_cols)};
    if (stated == packed) return {};
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tensor {} holds [{}], expected [{}], which {} has room for",
                    quoted(inputs_.tensors()[*matrix.shape].name), fmt::join(stated, ", "),
                    fmt::join(packed, ", "), quoted(inputs_.tensors()[matrix.quants].name)));
  }

  Quantization how_;
  std::vector<Matrix> matrices_;
};

}  // namespace

BiasNames bias_names(const FolderType& type, const ModelConfig& model) {
  BiasNames names;
  const TensorTable table(model);
  for (const TensorSpec& spec : table.all()) {
    const TensorRole role = spec.id.role;
    if (kind_of(role) != TensorKind::kBias) continue;
    (spec.is_optional ? names.optional : names.required).insert(folder_name(type, role));
  }
  return names;
}

Result<void> group_tensors(ModelSource& source, const Quantization& how, const BiasNames& biases) {
  TRY_ASSIGN(auto grouped, Grouping(source.top(), how, biases).run());
  source.add(std::make_unique<GroupedTensors>(source.top(), how, std::move(grouped)));
  return {};
}

}  // namespace kvik::hf
