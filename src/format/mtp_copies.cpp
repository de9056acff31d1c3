#include "format/mtp_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik {
namespace {

// Number of equal parts of a tensor of which is_copy() compares the first bytes, and bytes of each.
constexpr uint64_t kComparedParts = 64;
constexpr uint64_t kComparedBytes = 4096;

// Returns whether a tensor is a copy of another one, which is assumed if samples are equal: a
// mistake could change which tokens are drafted, but no answer.
Result<bool> is_copy(ModelSource& source, size_t of, size_t tensor) {
  const TensorInfo& a = source.tensors()[of];
  const TensorInfo& b = source.tensors()[tensor];
  if (a.type != b.type || a.shape != b.shape || a.n_bytes != b.n_bytes || a.shape.empty()) {
    return false;
  }
  const uint64_t n_rows = a.shape[0];
  const uint64_t row_bytes = n_rows ? a.n_bytes / n_rows : 0;
  if (row_bytes == 0) return false;
  const uint64_t n_compared = std::min(n_rows, std::max<uint64_t>(1, kComparedBytes / row_bytes));
  const uint64_t step = std::max<uint64_t>(1, n_rows / kComparedParts);
  for (uint64_t row = 0; row < n_rows; row += step) {
    const uint64_t n = std::min(n_compared, n_rows - row) * row_bytes;
    TRY_ASSIGN(const auto of_a, source.read_range(of, row * row_bytes, n));
    const std::vector<std::byte> copy(of_a.begin(), of_a.end());
    TRY_ASSIGN(const auto of_b, source.read_range(tensor, row * row_bytes, n));
    if (!std::ranges::equal(copy, of_b)) return false;
  }
  return true;
}

// Returns the tensor that the model uses for the role: an output projection may be the embedding.
std::optional<size_t> tensor_of_model(const ModelSource& source, TensorRole role) {
  const auto found = source.find(name_of(TensorId{role}));
  if (found || role == TensorRole::kEmbedding) return found;
  return source.find(name_of(TensorId{TensorRole::kEmbedding}));
}

}  // namespace

Result<void> leave_out_mtp_copies(ModelSource& source) {
  std::set<size_t> copies;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const auto id = tensor_named(source.tensors()[i].name);
    if (!id) continue;
    const bool is_embedding = id->role == TensorRole::kMtpEmbedding;
    if (!is_embedding && id->role != TensorRole::kMtpHead) continue;
    const auto of =
        tensor_of_model(source, is_embedding ? TensorRole::kEmbedding : TensorRole::kHead);
    if (!of) continue;
    TRY_ASSIGN(const bool is_same, is_copy(source, *of, i));
    if (is_same) copies.insert(i);
  }
  if (copies.empty()) return {};
  std::vector<ArrangedTensor> rest;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    if (!copies.contains(i)) rest.push_back(unchanged_tensor(source, i));
  }
  arrange(source, std::move(rest));
  return {};
}

}  // namespace kvik
