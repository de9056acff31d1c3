#include "backend/cpu/kernels.h"

namespace kvik::cpu {
namespace {

constexpr size_t kLanes = 16;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

size_t KvBlockLayout::k_bytes() const {
  return kPageTokens * row_bytes(type, type == KvType::kInt8 ? round_up(head_dim, 4) : head_dim);
}

size_t KvBlockLayout::v_bytes() const {
  return kPageTokens * row_bytes(type, round_up(head_dim, kLanes));
}

SplitRange splits_seen_by(const AttendTask& task) {
  const uint32_t first_end = task.first_position + 1;
  const uint32_t begin = task.window != 0 && first_end > task.window ? first_end - task.window : 0;
  const uint32_t last = task.first_position + task.n_rows - 1;
  return {begin / kSplitTokens, last / kSplitTokens + 1};
}

size_t partial_floats(const AttendTask& task) {
  const size_t padded_dim = round_up(task.layout.head_dim, kLanes);
  return size_t{task.n_rows} * task.group * (padded_dim + 2);
}

}  // namespace kvik::cpu
