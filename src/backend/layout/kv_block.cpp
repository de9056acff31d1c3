#include "backend/layout/kv_block.h"

#include "base/check.h"

namespace kvik {
namespace {

constexpr size_t kLanes = 16;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

uint32_t n_groups_of(uint32_t n_dims, uint32_t group) { return (n_dims + group - 1) / group; }

size_t offset_of(const KvBlockLayout& layout, uint32_t layer, uint32_t kv_head) {
  return size_t{layer} * layout.n_kv_heads * layout.head_bytes() + kv_head * layout.head_stride();
}

}  // namespace

uint32_t KvBlockLayout::group_dims(KvType of) const {
  return static_cast<uint32_t>(latent_dim != 0 ? latent_group_dims(of, latent_dim, head_dim)
                                               : kvik::group_dims(of, head_dim));
}

uint32_t KvBlockLayout::n_key_groups() const { return n_groups_of(head_dim, key_group_dims()); }

uint32_t KvBlockLayout::n_value_groups() const {
  return n_groups_of(value_dim(), value_group_dims());
}

size_t KvBlockLayout::k_bytes() const {
  const size_t groups = n_key_groups();
  if (keys_by_channel) return channel_key_bytes(head_dim);
  switch (key_type()) {
    case KvType::kF32:
      return kPageTokens * head_dim * sizeof(float);
    case KvType::kBF16:
      return kPageTokens * head_dim * sizeof(uint16_t);
    case KvType::kInt8:
      return kPageTokens * (round_up(head_dim, 4) + groups * sizeof(float));
    case KvType::kInt8Int4:
    case KvType::kInt4:
      break;
  }
  return kPageTokens * (round_up(head_dim, 8) / 2 + groups * sizeof(uint16_t));
}

size_t KvBlockLayout::v_bytes() const {
  if (latent_dim != 0) return 0;
  if (value_type() == KvType::kInt4) {
    const size_t packed = round_up(head_dim, 2 * kLanes) / 2;
    return kPageTokens * (packed + n_groups(value_type(), head_dim) * sizeof(uint16_t));
  }
  return kPageTokens * row_bytes(value_type(), round_up(head_dim, kLanes));
}

// The distance from K to V is then the same for all heads.
bool KvBlockLayout::has_values_apart() const {
  return type == KvType::kInt8 && latent_dim == 0 && k_bytes() == v_bytes();
}

size_t KvBlockLayout::value_offset() const {
  return has_values_apart() ? n_kv_heads * k_bytes() : k_bytes();
}

size_t KvBlockLayout::head_stride() const { return has_values_apart() ? k_bytes() : head_bytes(); }

size_t partial_floats(const KvBlockLayout& layout, size_t n_pairs) {
  return n_pairs * (round_up(layout.value_dim(), kLanes) + 2);
}

size_t block_offset(const KvTarget& kv, uint32_t kv_head) {
  return offset_of(layout_of(kv.geometry), kv.layer, kv_head);
}
size_t open_block_offset(const KvTarget& kv, uint32_t kv_head) {
  return offset_of(layout_of(kv.geometry).open_layout(), kv.layer, kv_head);
}

void check_runs(const KvTarget& kv, uint32_t n_rows) {
  CHECK(kv.layer < kv.geometry.n_layers);
  const bool is_open = !kv.runs.empty() && !kv.runs.front().open.empty();
  CHECK(!is_open || has_open_pages(kv.geometry.type));
  CHECK(!kv.geometry.keys_by_channel || kv.runs.empty() || is_open);
  for (const KvRun& run : kv.runs) {
    CHECK(run.first_row <= n_rows && run.n_rows <= n_rows - run.first_row);
    CHECK(run.pages.size() * kPageTokens >= size_t{run.first_position} + run.n_rows);
    CHECK(run.open.empty() != is_open);
    CHECK(!is_open ||
          run.open.size() * kPageTokens >= size_t{run.first_position} % kPageTokens + run.n_rows);
  }
}

}  // namespace kvik
