#include "model/tensor_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/blocks.h"
#include "tensor/tensor_digest.h"

namespace kvik {
namespace {

std::vector<uint64_t> without_ones(std::vector<uint64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

std::unexpected<Error> unsupported_type(const ModelSource& source, size_t index) {
  std::vector<std::string_view> others;  // types of GGUF files other than q2_k to q8_0
  for (const ElementTraits& t : element_types()) {
    if (block_format(t.type) && t.gguf_id != kNoGgufId && *t.name != 'q') others.push_back(t.name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("tensor '{}' is of type {}, expected f32, f16, bf16, one of q2_k to q6_k "
                          "or q4_0 to q8_0, {} or fp8",
                          source.name_in_file(index), name_of(source.tensors()[index].type),
                          fmt::join(others, ", ")));
}

}  // namespace

TensorLoader::TensorLoader(ModelSource& source, Backend& backend, const TensorTable& table,
                           const Progress& progress)
    : source_(source),
      backend_(backend),
      table_(table),
      progress_(progress),
      fingerprint_(source),
      taken_(source.tensors().size()) {
  for (const TensorInfo& tensor : source.tensors()) all_bytes_ += tensor.n_bytes;
}

std::vector<const TensorSpec*> TensorLoader::specs_of(Roles roles, uint32_t layer) const {
  std::vector<const TensorSpec*> specs;
  for (const TensorRole role : roles) {
    const TensorSpec* spec = table_.find({role, layer});
    if (spec && (!spec->is_optional || has(spec->id))) specs.push_back(spec);
  }
  return specs;
}

Result<size_t> TensorLoader::take(const TensorSpec& spec) {
  const std::string name = name_of(spec.id);
  const std::optional<size_t> index = source_.find(name);
  if (!index) return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
  const TensorInfo& info = source_.tensors()[*index];
  const bool is_one_row = kind_of(spec.id.role) == TensorKind::kRouting && info.shape.size() == 2 &&
                          spec.shape.size() == 1 && info.shape[0] == 1 &&
                          info.shape[1] == spec.shape[0];
  // Axes of size 1 in lists of numbers, which Kimi Linear has more of, and GLM 5.3 fewer.
  const bool is_alike = is_list(kind_of(spec.id.role)) && info.shape.size() != 2 &&
                        without_ones(info.shape) == without_ones(spec.shape);
  if (!is_one_row && !is_alike && info.shape != spec.shape) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tensor '{}' has the shape [{}], expected [{}]", source_.name_in_file(*index),
                    fmt::join(info.shape, ", "), fmt::join(spec.shape, ", ")));
  }
  taken_[*index] = true;
  return *index;
}

Result<std::vector<float>> TensorLoader::floats(TensorId tensor) {
  const TensorSpec* spec = table_.find(tensor);
  CHECK(spec && !spec->shape.empty());
  TRY_ASSIGN(const size_t index, take(*spec));
  const TensorInfo& info = source_.tensors()[index];
  if (!can_dequantize(info.type)) return unsupported_type(source_, index);
  TRY_ASSIGN(const auto bytes, source_.read(index));
  const uint64_t n_cols = spec->shape.back();
  const uint64_t n_rows = n_elements_of(spec->shape) / n_cols;
  TRY(check_scales({info.type, n_rows, n_cols, bytes, {}, source_.scale(index, 0)}, index));
  std::vector<float> values(n_rows * n_cols);
  const size_t row_bytes = bytes.size() / n_rows;
  for (uint64_t row = 0; row < n_rows; ++row) {
    dequantize_row(info.type, bytes.data() + row * row_bytes,
                   std::span(values).subspan(row * n_cols, n_cols));
  }
  for (float& value : values) value *= source_.scale(index, 0);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    return name_tensor({ErrorCode::kCorrupt, "holds a number that is not finite", ""}, index);
  fingerprint_.add_tensors(
      digest_of({info.type, n_rows, n_cols, bytes, {}, source_.scale(index, 0)}));
  done(index);
  return values;
}

Result<void> TensorLoader::check_all_or_none(Roles roles, uint32_t layer) const {
  std::optional<TensorRole> first;  // of those that the model may have
  for (const TensorRole role : roles) {
    if (!table_.find({role, layer})) continue;
    if (!first) first = role;
    if (has({role, layer}) == has({*first, layer})) continue;
    const TensorRole missing = has({role, layer}) ? *first : role;
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tensor '{}' is missing beside others of its kind, expected all or none",
                    name_of({missing, layer})));
  }
  return {};
}

Result<std::vector<float>> TensorLoader::host_vectors(Roles roles, uint32_t layer) {
  std::vector<float> all;
  for (const TensorSpec* spec : specs_of(roles, layer)) {
    TRY_ASSIGN(const std::vector<float> values, floats(spec->id));
    all.insert(all.end(), values.begin(), values.end());
  }
  weight_bytes_ += all.size() * sizeof(float);
  return all;
}

Buffer TensorLoader::keep(const std::vector<float>& values) {
  if (values.empty()) return Buffer();
  Buffer buffer = backend_.memory().allocate(values.size() * sizeof(float));
  backend_.memory().copy_in(buffer.data(), std::as_bytes(std::span(values)));
  return buffer;
}

Result<Buffer> TensorLoader::vectors(Roles roles, uint32_t layer) {
  TRY_ASSIGN(const std::vector<float> all, host_vectors(roles, layer));
  return keep(all);
}

Result<Buffer> TensorLoader::expert_vectors(Roles roles, uint32_t layer) {
  const auto specs = specs_of(roles, layer);
  std::vector<std::vector<float>> stacks;
  for (const TensorSpec* spec : specs) {
    TRY_ASSIGN(std::vector<float> values, floats(spec->id));
    stacks.push_back(std::move(values));
  }
  std::vector<float> all;
  for (uint64_t expert = 0; !specs.empty() && expert < specs.front()->shape[0]; ++expert) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto n = static_cast<ptrdiff_t>(specs[i]->shape[1]);
      const auto first = stacks[i].begin() + static_cast<ptrdiff_t>(expert) * n;
      all.insert(all.end(), first, first + n);
    }
  }
  weight_bytes_ += all.size() * sizeof(float);
  return keep(all);
}

Result<void> TensorLoader::check_computable(size_t index) {
  const ElementType type = source_.tensors()[index].type;
  if (!backend_.can_compute(type)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tensor '{}' is of type {}, which {} does not compute with, expected {}",
                    source_.name_in_file(index), name_of(type), backend_.name(),
                    computable_types(backend_)));
  }
  if (const auto own = backend_.arithmetic(type); !own.empty()) arithmetics_.insert(own);
  return {};
}

std::unexpected<Error> TensorLoader::name_tensor(const Error& error, size_t index) const {
  return fail(error.code,
              fmt::format("tensor '{}' {}", source_.name_in_file(index), error.message));
}

Result<void> TensorLoader::check_scales(const TensorView& view, size_t index) const {
  const auto scale = invalid_scale(view.type, view.bytes);
  if (!scale) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("tensor '{}' has a scale of {}, which is not a valid scale of {}, "
                          "expected 0 to {}",
                          source_.name_in_file(index), *scale, name_of(view.type),
                          block_format(view.type)->scale_bytes.most));
}

// Returns a Matrix of all rows of a tensor.
Result<TensorLoader::Matrix> TensorLoader::matrix_of(const TensorSpec& spec) {
  TRY_ASSIGN(const size_t index, take(spec));
  TRY(check_computable(index));
  const TensorInfo& info = source_.tensors()[index];
  const uint64_t n_cols = spec.shape.back();
  return Matrix{index, 0, 0, {info.type, n_elements_of(spec.shape) / n_cols, n_cols, {}}};
}

Result<TensorView> TensorLoader::read_rows(const Matrix& matrix, uint64_t first, uint64_t n) {
  TensorView rows = matrix.view;
  const uint64_t row_bytes = rows.row_bytes();
  rows.n_rows = n;
  if (matrix.block_rows > 0) {
    TRY_ASSIGN(rows.bytes, read_alternating(matrix, first, n));
  } else {
    TRY_ASSIGN(rows.bytes, source_.read_range(matrix.index, (matrix.first_row + first) * row_bytes,
                                              n * row_bytes));
  }
  rows.gather = source_.gather(matrix.index);
  rows.scale = source_.scale(matrix.index, matrix.slice);
  TRY(check_scales(rows, matrix.index));
  return rows;
}

Result<std::span<const std::byte>> TensorLoader::read_alternating(const Matrix& matrix,
                                                                  uint64_t first, uint64_t n) {
  const uint64_t row_bytes = matrix.view.row_bytes();
  const uint64_t block = matrix.block_rows;
  alternating_rows_.clear();
  for (uint64_t row = matrix.first_row + first; row < matrix.first_row + first + n; ++row) {
    const uint64_t kind = row / matrix.n_rows_of_kind, place = row % matrix.n_rows_of_kind;
    const uint64_t in_file = place / block * 2 * block + kind * block + place % block;
    TRY_ASSIGN(const auto bytes, source_.read_range(matrix.index, in_file * row_bytes, row_bytes));
    alternating_rows_.insert(alternating_rows_.end(), bytes.begin(), bytes.end());
  }
  return alternating_rows_;
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::pack(const std::vector<Matrix>& matrices,
                                                         Orders orders) {
  if (matrices.empty()) return nullptr;
  std::vector<TensorView> views;
  for (const Matrix& matrix : matrices) views.push_back(matrix.view);
  std::optional<std::vector<uint32_t>> order;  // column order of the first matrix
  std::optional<size_t> last_read;             // the matrix read last; none if that failed
  const auto read = [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
    last_read.reset();
    TRY_ASSIGN(const TensorView rows, read_rows(matrices[matrix], first, n));
    last_read = matrix;
    if (!order) order.emplace(rows.gather.begin(), rows.gather.end());
    if (orders == Orders::kAny || std::ranges::equal(rows.gather, *order)) return rows;
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' has its columns in another order than '{}', expected one "
                            "order for the experts of a layer",
                            source_.name_in_file(matrices[matrix].index),
                            source_.name_in_file(matrices.front().index)));
  };
  auto all = backend_.pack(views, read);
  if (!all && all.error().code == ErrorCode::kCorrupt && last_read)
    return name_tensor(all.error(), matrices[*last_read].index);
  TRY_ASSIGN(auto packed, std::move(all));
  fingerprint_.add_tensors(packed->source_digest());
  std::set<size_t> tensors;
  for (const Matrix& matrix : matrices) {
    if (tensors.insert(matrix.index).second) done(matrix.index);
  }
  weight_bytes_ += packed->bytes();
  return packed;
}

// Records the location of each tensor. In a stack, each matrix has the columns of one matrix of
// each tensor. Blocks of the second kind follow the columns of all tensors.
void TensorLoader::record_sites(const PackedMatrix& matrix,
                                const std::vector<const TensorSpec*>& specs, Turns turns) {
  uint64_t column = 0;
  ProjectionSite* by_turns = nullptr;
  for (const TensorSpec* spec : specs) {
    const uint64_t n_rows = spec->shape.size() == 1 ? 1 : spec->shape[spec->shape.size() - 2];
    ProjectionSite& site = sites_[spec->id];
    site = {.matrix = &matrix, .first_column = static_cast<uint32_t>(column)};
    const bool is_alternating = turns.block_rows > 0 && spec->id.role == turns.role;
    if (is_alternating) {
      site.block_rows = turns.block_rows;
      by_turns = &site;
    }
    column += is_alternating ? n_rows / 2 : n_rows;
  }
  if (by_turns) by_turns->second_column = static_cast<uint32_t>(column);
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::matrix(Roles roles, uint32_t layer,
                                                           Turns turns) {
  std::vector<Matrix> matrices;
  std::optional<Matrix> second_kind;
  const auto specs = specs_of(roles, layer);
  for (const TensorSpec* spec : specs) {
    TRY_ASSIGN(Matrix matrix, matrix_of(*spec));
    if (turns.block_rows > 0 && spec->id.role == turns.role) {
      CHECK(matrix.view.n_rows % (2 * uint64_t{turns.block_rows}) == 0);
      matrix.block_rows = turns.block_rows;
      matrix.n_rows_of_kind = matrix.view.n_rows / 2;
      if (spec != specs.back()) {  // if it is the last one, both kinds are adjacent anyway
        matrix.view.n_rows = matrix.n_rows_of_kind;
        second_kind = matrix;
        second_kind->first_row = matrix.n_rows_of_kind;
      }
    }
    matrices.push_back(matrix);
  }
  if (second_kind) matrices.push_back(*second_kind);
  TRY_ASSIGN(auto packed, pack(matrices, Orders::kAny));
  if (packed) record_sites(*packed, specs, turns);
  return packed;
}

Result<std::unique_ptr<RowTable>> TensorLoader::row_table(TensorRole role,
                                                          std::shared_ptr<ModelSource> file) {
  if (!file) {
    TRY_ASSIGN(auto packed, matrix({role}));
    return packed ? std::make_unique<RowTable>(std::move(packed)) : nullptr;
  }
  CHECK(file.get() == &source_);
  const auto specs = specs_of({role}, 0);
  if (specs.empty()) return nullptr;
  TRY_ASSIGN(const Matrix rows, matrix_of(*specs.front()));
  TRY(check_rows(rows));
  done(rows.index);
  return std::make_unique<RowTable>(std::move(file), rows.index);
}

Result<void> TensorLoader::check_rows(const Matrix& matrix) {
  constexpr uint64_t kPartRows = 128 * kDigestRows;
  std::vector<Hash128> digests;
  for (uint64_t first = 0; first < matrix.view.n_rows; first += kPartRows) {
    TRY_ASSIGN(TensorView rows,
               read_rows(matrix, first, std::min(kPartRows, matrix.view.n_rows - first)));
    if (const auto packed = backend_.pack_views({&rows, 1}); !packed) {
      return name_tensor(packed.error(), matrix.index);
    }
    if (first > 0) {
      rows.gather = {};  // hashed with the first part
      rows.scale = 1;
    }
    for (uint64_t piece = 0; piece * kDigestRows < rows.n_rows; ++piece) {
      digests.push_back(digest_piece(rows, piece));
    }
  }
  fingerprint_.add_tensors(digest_of_pieces(digests));
  return {};
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::experts(Roles roles, uint32_t layer) {
  const auto specs = specs_of(roles, layer);
  if (specs.empty()) return nullptr;
  std::vector<Matrix> stacks;
  for (const TensorSpec* spec : specs) {
    TRY_ASSIGN(const Matrix stack, matrix_of(*spec));
    stacks.push_back(stack);
  }
  std::vector<Matrix> matrices;
  for (uint64_t expert = 0; expert < specs.front()->shape[0]; ++expert) {
    for (size_t i = 0; i < specs.size(); ++i) {
      Matrix one = stacks[i];
      one.view.n_rows = specs[i]->shape[1];
      one.first_row = expert * one.view.n_rows;
      one.slice = expert;
      matrices.push_back(one);
    }
  }
  TRY_ASSIGN(auto packed, pack(matrices, Orders::kOne));
  record_sites(*packed, specs, {});
  return packed;
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::parts_of_rows(Roles roles, uint32_t layer,
                                                                  uint32_t n_parts) {
  const auto specs = specs_of(roles, layer);
  if (specs.empty()) return nullptr;
  CHECK(specs.size() == 1 && specs.front()->shape[0] % n_parts == 0);
  TRY_ASSIGN(const Matrix whole, matrix_of(*specs.front()));
  std::vector<Matrix> matrices;
  for (uint32_t part = 0; part < n_parts; ++part) {
    Matrix one = whole;
    one.view.n_rows = whole.view.n_rows / n_parts;
    one.first_row = part * one.view.n_rows;
    matrices.push_back(one);
  }
  TRY_ASSIGN(auto packed, pack(matrices, Orders::kOne));
  sites_[specs.front()->id] = {.matrix = packed.get(), .first_column = 0};
  return packed;
}

Result<std::vector<uint32_t>> TensorLoader::numbers(TensorId tensor, uint32_t end) {
  const TensorSpec* spec = table_.find(tensor);
  CHECK(spec);
  TRY_ASSIGN(const size_t index, take(*spec));
  const TensorInfo& info = source_.tensors()[index];
  if (info.type != ElementType::kI32 && info.type != ElementType::kI64) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is of type {}, expected i32 or i64",
                            source_.name_in_file(index), name_of(info.type)));
  }
  TRY_ASSIGN(const auto bytes, source_.read(index));
  std::vector<uint32_t> numbers;
  const size_t n_bytes = info.type == ElementType::kI32 ? sizeof(int32_t) : sizeof(int64_t);
  for (size_t at = 0; at < bytes.size(); at += n_bytes) {
    uint64_t number = 0;  // a negative number becomes a large one
    std::memcpy(&number, bytes.data() + at, n_bytes);
    if (number >= end) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' holds {}, expected numbers from 0 to {}",
                              source_.name_in_file(index), static_cast<int64_t>(number), end - 1));
    }
    numbers.push_back(static_cast<uint32_t>(number));
  }
  fingerprint_.add_tensors(digest_of({info.type, spec->shape[0], spec->shape[1], bytes, {}, 1.0f}));
  weight_bytes_ += numbers.size() * sizeof(uint32_t);
  done(index);
  return numbers;
}

void TensorLoader::done(size_t index) {
  source_.release(index);
  done_bytes_ += source_.tensors()[index].n_bytes;
  if (progress_) progress_(done_bytes_, all_bytes_);
}

Result<void> TensorLoader::check_all_taken(std::string_view architecture) const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i] || table_.may_be_unused(source_.tensors()[i].name)) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is not supported for architecture '{}'",
                            source_.name_in_file(i), architecture));
  }
  return {};
}

}  // namespace kvik
