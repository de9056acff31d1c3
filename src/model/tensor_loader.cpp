#include "model/tensor_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tensor/blocks.h"
#include "tensor/tensor_digest.h"

namespace kvik {
namespace {

std::unexpected<Error> unsupported_type(const ModelSource& source, size_t index) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("tensor '{}' is of type {}, expected f32, f16, bf16, one of q2_k to q6_k "
                          "or q4_0 to q8_0, iq4_nl or iq4_xs",
                          source.name_in_file(index), name_of(source.tensors()[index].type)));
}

}  // namespace

TensorLoader::TensorLoader(ModelSource& source, Backend& backend, const Progress& progress)
    : source_(source),
      backend_(backend),
      progress_(progress),
      fingerprint_(source),
      taken_(source.tensors().size()) {
  for (const TensorInfo& tensor : source.tensors()) all_bytes_ += tensor.n_bytes;
}

// The index of the tensor of that name, which must have this shape. [1, n] may be [n].
Result<size_t> TensorLoader::take(const std::string& name, std::initializer_list<uint64_t> shape) {
  const std::optional<size_t> index = source_.find(name);
  if (!index) return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
  const TensorInfo& info = source_.tensors()[*index];
  const bool is_one_row = info.shape.size() == 1 && shape.size() == 2 && *shape.begin() == 1 &&
                          info.shape[0] == *(shape.begin() + 1);
  if (!is_one_row && !std::ranges::equal(info.shape, shape)) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tensor '{}' has the shape [{}], expected [{}]", source_.name_in_file(*index),
                    fmt::join(info.shape, ", "), fmt::join(shape, ", ")));
  }
  taken_[*index] = true;
  return *index;
}

Result<std::vector<float>> TensorLoader::floats(const Part& part) {
  TRY_ASSIGN(const size_t index, take(part.name, {part.n_rows}));
  const TensorInfo& info = source_.tensors()[index];
  if (!can_dequantize(info.type)) return unsupported_type(source_, index);
  TRY_ASSIGN(const auto bytes, source_.read(index));
  std::vector<float> values(part.n_rows);
  dequantize_row(info.type, bytes.data(), values);
  fingerprint_.add_tensors(digest_of({info.type, 1, part.n_rows, bytes}));
  done(index);
  return values;
}

Result<Buffer> TensorLoader::vectors(const std::vector<Part>& parts) {
  std::vector<float> all;
  for (const Part& part : parts) {
    TRY_ASSIGN(const std::vector<float> values, floats(part));
    all.insert(all.end(), values.begin(), values.end());
  }
  Buffer buffer = backend_.memory().allocate(all.size() * sizeof(float));
  backend_.memory().copy_in(buffer.data(), std::as_bytes(std::span(all)));
  weight_bytes_ += buffer.size();
  return buffer;
}

Result<void> TensorLoader::check_computable(size_t index) {
  const ElementType type = source_.tensors()[index].type;
  if (!backend_.can_compute(type)) return unsupported_type(source_, index);
  if (const auto own = backend_.arithmetic(type); !own.empty()) arithmetics_.insert(own);
  return {};
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::pack(const std::vector<TensorView>& views,
                                                         const std::vector<size_t>& indices) {
  TRY_ASSIGN(auto packed, backend_.pack(views));
  fingerprint_.add_tensors(packed->source_digest());
  for (const size_t index : indices) done(index);
  weight_bytes_ += packed->bytes();
  return packed;
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::matrix(const std::vector<Part>& parts,
                                                           uint32_t n_cols) {
  std::vector<size_t> indices;
  std::vector<TensorView> views;
  for (const Part& part : parts) {
    TRY_ASSIGN(const size_t index, take(part.name, {part.n_rows, n_cols}));
    TRY(check_computable(index));
    TRY_ASSIGN(const auto bytes, source_.read(index));
    indices.push_back(index);
    const ElementType type = source_.tensors()[index].type;
    views.push_back({type, part.n_rows, n_cols, bytes, source_.gather(index)});
  }
  return pack(views, indices);
}

Result<std::unique_ptr<PackedMatrix>> TensorLoader::experts(const std::vector<Part>& parts,
                                                            uint32_t n_experts, uint32_t n_cols) {
  std::vector<size_t> indices;
  std::vector<std::vector<std::span<const std::byte>>> stacks;  // of each part, by expert
  for (const Part& part : parts) {
    TRY_ASSIGN(const size_t index, take(part.name, {n_experts, part.n_rows, n_cols}));
    TRY(check_computable(index));
    TRY_ASSIGN(auto stack, source_.read_parts(index, n_experts));
    indices.push_back(index);
    stacks.push_back(std::move(stack));
    if (std::ranges::equal(source_.gather(index), source_.gather(indices.front()))) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' has its columns in another order than '{}', expected one "
                            "order for the experts of a layer",
                            source_.name_in_file(index), source_.name_in_file(indices.front())));
  }
  std::vector<TensorView> views;
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const ElementType type = source_.tensors()[indices[i]].type;
      const auto gather = source_.gather(indices[i]);
      views.push_back({type, parts[i].n_rows, n_cols, stacks[i][expert], gather});
    }
  }
  return pack(views, indices);
}

void TensorLoader::done(size_t index) {
  source_.release(index);
  done_bytes_ += source_.tensors()[index].n_bytes;
  if (progress_) progress_(done_bytes_, all_bytes_);
}

Result<void> TensorLoader::check_all_taken(std::string_view architecture) const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is not part of architecture '{}' as it is known here",
                            source_.name_in_file(i), architecture));
  }
  return {};
}

}  // namespace kvik
