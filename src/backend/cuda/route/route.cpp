#include "backend/cuda/route/route.h"

#include "base/check.h"

namespace kvik::cuda {
namespace {

// Places lists one after another in a buffer. With a null buffer it only computes their total size.
class Places {
 public:
  explicit Places(std::byte* data) : data_(data) {}

  template <class T>
  T* take(uint64_t n) {
    std::byte* const at = data_ ? data_ + n_bytes_ : nullptr;
    n_bytes_ += (n * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  uint64_t n_bytes() const { return n_bytes_; }

 private:
  std::byte* data_;
  uint64_t n_bytes_ = 0;
};

RoutedLists lists_at(Places& at, uint32_t n_rows, uint32_t n_choices, uint32_t n_experts) {
  RoutedLists lists = {.n_rows = n_rows,
                       .n_choices = n_choices,
                       .n_experts = n_experts,
                       .chosen = at.take<uint32_t>(n_choices),
                       .places = at.take<uint32_t>(n_choices),
                       .order = at.take<uint32_t>(n_choices),
                       .experts = at.take<uint32_t>(n_choices),
                       .weights = at.take<float>(n_choices),
                       .shared_weights = at.take<float>(n_rows)};
  for (uint32_t i = 0; i < kTileLists; ++i) {
    const uint32_t n = std::min(n_choices, n_experts) + ceil_div(n_choices, kTileRows[i]);
    lists.tile_lists[i] = {at.take<RowTile>(n), kTileRows[i]};
  }
  return lists;
}

uint64_t bytes_of(uint32_t n_rows, uint32_t n_choices, uint32_t n_experts) {
  Places none(nullptr);
  lists_at(none, n_rows, n_choices, n_experts);
  return none.n_bytes();
}

bool is_of(std::span<const float> list, uint32_t n) { return list.empty() || list.size() == n; }

}  // namespace

uint64_t Routing::scratch_bytes(const WorkLimits& limits) {
  if (limits.n_expert_rows == 0) return 0;
  return bytes_of(limits.n_rows, limits.n_expert_rows, limits.n_experts);
}

bool Routing::run(const RouteShape& shape, Rows scores) {
  CHECK(shape.n_used > 0 && shape.n_used <= shape.n_experts);
  CHECK(shape.n_groups > 0 && shape.n_experts % shape.n_groups == 0);
  CHECK(scores.n_rows > 0 && scores.n_cols == shape.n_experts + (shape.has_shared_gate ? 1 : 0));
  CHECK(is_of(shape.correction_bias, shape.n_experts) && is_of(shape.factors, shape.n_experts));
  if (shape.n_experts > kMaxExperts || shape.n_used > kMaxUsedExperts) return false;
  const uint32_t n_choices = scores.n_rows * shape.n_used;
  memory_.grow(buffer_, bytes_of(scores.n_rows, n_choices, shape.n_experts));
  Places places(buffer_.data());
  lists_ = lists_at(places, scores.n_rows, n_choices, shape.n_experts);
  const Grid rows = {.x = 1, .y = grid_rows(scores.n_rows), .z = 1, .n_threads = 32};
  require(stream_.launch(kernels_.choose, rows,
                         {.scores = scores.data,
                          .stride = scores.stride,
                          .n_rows = scores.n_rows,
                          .n_experts = shape.n_experts,
                          .n_used = shape.n_used,
                          .n_groups = shape.n_groups,
                          .n_groups_used = shape.n_groups_used,
                          .is_sigmoid = shape.is_sigmoid,
                          .normalizes = shape.normalizes,
                          .has_shared_gate = shape.has_shared_gate,
                          .weight_scale = shape.weight_scale,
                          .correction_bias = tables_.put(shape.correction_bias),
                          .factors = tables_.put(shape.factors),
                          .chosen = lists_.chosen,
                          .weights = lists_.weights,
                          .shared_weights = lists_.shared_weights}));
  GroupTask task = {.chosen = lists_.chosen,
                    .n_choices = n_choices,
                    .n_used = shape.n_used,
                    .n_experts = shape.n_experts,
                    .places = lists_.places,
                    .order = lists_.order,
                    .experts = lists_.experts,
                    .tile_lists = {}};
  std::ranges::copy(lists_.tile_lists, task.tile_lists);
  const Grid experts = {.x = 1, .y = shape.n_experts, .z = 1, .n_threads = 32};
  require(stream_.launch(kernels_.group, experts, task));
  return true;
}

}  // namespace kvik::cuda
