#include "format/importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "format/gguf/gguf.h"
#include "format/gguf/gguf_cursor.h"
#include "format/gguf/gguf_output.h"

namespace kvik {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr double kMinWeight = 1e-3;

// Reads the numbers of an f32 tensor, which must be finite and ≥ 0.
Result<std::vector<double>> read_numbers(ModelSource& source, size_t index) {
  const TensorInfo& info = source.tensors()[index];
  if (info.type != ElementType::kF32) {
    return fail(ErrorCode::kCorrupt, fmt::format("tensor {} is of type {}, expected f32",
                                                 quoted(info.name), name_of(info.type)));
  }
  TRY_ASSIGN(const auto bytes, source.read(index));
  std::vector<float> stored(info.n_elements());
  std::memcpy(stored.data(), bytes.data(), bytes.size());
  source.release(index);
  for (const float number : stored) {
    if (std::isfinite(number) && number >= 0) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} holds {}, expected numbers ≥ 0", quoted(info.name), number));
  }
  return std::vector<double>(stored.begin(), stored.end());
}

std::vector<std::byte> as_f32(const std::vector<double>& numbers) {
  const std::vector<float> stored(numbers.begin(), numbers.end());
  const auto bytes = std::as_bytes(std::span(stored));
  return {bytes.begin(), bytes.end()};
}

uint64_t n_matrices_of(const TensorInfo& tensor) {
  return tensor.shape.size() == 3 ? tensor.shape[0] : 1;
}

}  // namespace

Result<Importance> Importance::read(const std::string& path) {
  TRY_ASSIGN(const auto source, open_gguf(path));
  auto importance = from(*source);
  if (importance) return importance;
  return fail(importance.error().code, fmt::format("'{}': {}", path, importance.error().message));
}

Result<Importance> Importance::from(ModelSource& source) {
  const Metadata& metadata = source.metadata();
  Importance out;
  TRY_ASSIGN(const auto kind, metadata.get_string("general.type"));
  if (kind != "imatrix") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("key 'general.type' is {}, expected 'imatrix': a file of `kvik "
                            "quantize --calibrate` or of llama.cpp's llama-imatrix",
                            kind ? quoted(*kind) : "missing"));
  }
  TRY_ASSIGN(const auto* texts, metadata.get_strings("imatrix.datasets"));
  if (texts && !texts->empty()) out.text = texts->front();
  TRY_ASSIGN(const auto n_chunks, metadata.get_uint("imatrix.chunk_count"));
  TRY_ASSIGN(const auto chunk_tokens, metadata.get_uint("imatrix.chunk_size"));
  out.n_chunks = n_chunks.value_or(0);
  out.chunk_tokens = chunk_tokens.value_or(0);
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    if (!info.name.ends_with(kSums)) continue;
    const std::string name = info.name.substr(0, info.name.size() - kSums.size());
    const auto counts = source.find(name + std::string(kCounts));
    Inputs inputs{.n_cols = info.shape.back(), .sums = {}, .counts = {}};
    const uint64_t n_matrices = info.n_elements() / inputs.n_cols;
    if (!counts || source.tensors()[*counts].n_elements() != n_matrices) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} needs a tensor '{}{}' of {} numbers beside it",
                              quoted(info.name), name, kCounts, n_matrices));
    }
    TRY_ASSIGN(inputs.sums, read_numbers(source, i));
    TRY_ASSIGN(inputs.counts, read_numbers(source, *counts));
    out.inputs_.emplace(name, std::move(inputs));
  }
  return out;
}

Result<void> Importance::write(const std::string& path) const {
  Metadata metadata;
  metadata.insert("general.type", std::string("imatrix"));
  metadata.insert("imatrix.datasets", std::vector<std::string>{text});
  metadata.insert("imatrix.chunk_count", n_chunks);
  metadata.insert("imatrix.chunk_size", chunk_tokens);
  std::vector<TensorInfo> tensors;
  for (const auto& [name, in] : inputs_) {
    const uint64_t n = in.counts.size();
    tensors.push_back({name + std::string(kSums), ElementType::kF32, {n, in.n_cols}, 0});
    tensors.push_back({name + std::string(kCounts), ElementType::kF32, {n, 1}, 0});
  }
  for (TensorInfo& tensor : tensors) tensor.n_bytes = tensor.n_elements() * sizeof(float);
  TRY_ASSIGN(auto output, GgufOutput::create(path, metadata, tensors));
  for (const auto& [name, in] : inputs_) {
    TRY(output.write(as_f32(in.sums)));
    TRY(output.write(as_f32(in.counts)));
  }
  return output.commit();
}

void Importance::expect(const std::string& tensor, uint64_t n_matrices, uint64_t n_cols) {
  Inputs& in = inputs_[tensor];
  if (!in.counts.empty()) return;
  in.n_cols = n_cols;
  in.sums.resize(n_matrices * n_cols);
  in.counts.resize(n_matrices);
}

void Importance::add(const std::string& tensor, uint64_t matrix, std::span<const float> row) {
  const auto at = inputs_.find(tensor);
  CHECK(at != inputs_.end() && row.size() == at->second.n_cols);
  Inputs& in = at->second;
  CHECK(matrix < in.counts.size());
  double* sums = in.sums.data() + matrix * in.n_cols;
  for (size_t i = 0; i < row.size(); ++i) {
    sums[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
  in.counts[matrix] += 1;
}

Result<std::vector<float>> Importance::weights(const TensorInfo& tensor, uint64_t matrix) const {
  const auto at = inputs_.find(tensor.name);
  if (at == inputs_.end()) return std::vector<float>();
  const Inputs& in = at->second;
  if (in.n_cols != tensor.shape.back() || in.counts.size() != n_matrices_of(tensor)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the importance of {} is of {} x {} columns, but the tensor has {} x "
                            "{}: it was computed with another model",
                            quoted(tensor.name), in.counts.size(), in.n_cols, n_matrices_of(tensor),
                            tensor.shape.back()));
  }
  // Rounded as in a file, so that writing and reading it in between changes nothing.
  const auto* begin = in.sums.data() + matrix * in.n_cols;
  const std::vector<float> sums(begin, begin + in.n_cols);
  double all = 0;
  for (const float sum : sums) all += static_cast<double>(sum);
  if (in.counts[matrix] == 0 || all == 0) return std::vector<float>();
  const double mean = all / static_cast<double>(in.n_cols);
  std::vector<float> weights(in.n_cols);
  std::ranges::transform(sums, weights.begin(), [&](float sum) {
    return static_cast<float>(std::max(static_cast<double>(sum) / mean, kMinWeight));
  });
  return weights;
}

}  // namespace kvik
