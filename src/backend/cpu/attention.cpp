#include "backend/cpu/attention.h"

#include <algorithm>

namespace kvik::cpu {
namespace {

// Query rows of one item.
constexpr uint32_t kItemRows = 16;
// Items of each thread below which they are shared, if that gives more.
constexpr size_t kItemsPerThread = 4;
// Splits of an item between two merges: bounds the partial results of a context of any length.
constexpr uint32_t kWaveSplits = 32;

uint32_t length(SplitRange splits) { return splits.end - splits.begin; }

// The splits of an item that a wave works on; may be empty.
SplitRange splits_of_wave(const AttendTask& item, uint32_t wave) {
  const SplitRange all = splits_seen_by(item);
  const uint32_t begin = std::min(all.begin + wave * kWaveSplits, all.end);
  return {begin, std::min(begin + kWaveSplits, all.end)};
}

void grow(Buffer& buffer, Memory& memory, size_t n_floats) {
  const size_t bytes = n_floats * sizeof(float);
  if (buffer.size() < bytes) buffer = memory.allocate(bytes);
}

}  // namespace

// A page: [layers][KV heads] of one head's K and V.
size_t block_offset(const KvTarget& kv, uint32_t kv_head) {
  const KvBlockLayout layout{kv.geometry.type, kv.geometry.head_dim};
  const size_t block = size_t{kv.layer} * kv.geometry.n_kv_heads + kv_head;
  return block * layout.head_bytes();
}

Attention::Attention(const AttentionKernels& kernels, Memory& memory, ThreadPool& pool)
    : kernels_(kernels), memory_(memory), pool_(pool), scratch_(pool.n_threads()) {}

void Attention::run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  const uint32_t group = shape.n_heads / kv.geometry.n_kv_heads;
  for (Buffer& scratch : scratch_) {
    grow(scratch, memory_, kernels_.scratch_floats(kv.geometry.head_dim, group));
  }
  list_items(kv, shape, q, out);
  if (should_share()) return run_shared();
  pool_.run(items_.size(), [&](size_t item, uint32_t thread) {
    kernels_.attend(with_scratch(items_[item], thread));
  });
}

// The last rows of a run look back furthest: they come first, so that no thread ends alone on one.
void Attention::list_items(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  const KvGeometry& geometry = kv.geometry;
  const uint32_t group = shape.n_heads / geometry.n_kv_heads;
  items_.clear();
  for (const KvRun& run : kv.runs) {
    for (uint32_t end = run.n_rows; end > 0; end = (end - 1) / kItemRows * kItemRows) {
      const uint32_t first = (end - 1) / kItemRows * kItemRows;
      const size_t row = run.first_row + first;
      for (uint32_t head = 0; head < geometry.n_kv_heads; ++head) {
        const size_t column = size_t{head} * group * geometry.head_dim;
        items_.push_back({
            .layout = {geometry.type, geometry.head_dim},
            .block_offset = block_offset(kv, head),
            .pages = run.pages.data(),
            .first_position = run.first_position + first,
            .n_rows = end - first,
            .group = group,
            .q = q.data + row * q.stride + column,
            .q_stride = q.stride,
            .out = out.data + row * out.stride + column,
            .out_stride = out.stride,
            .scale = shape.scale,
            .soft_cap = shape.soft_cap,
            .window = shape.window,
            .scratch = nullptr,
        });
      }
    }
  }
}

AttendTask Attention::with_scratch(const AttendTask& item, uint32_t thread) const {
  AttendTask task = item;
  task.scratch = scratch_[thread].floats();
  return task;
}

bool Attention::should_share() const {
  if (pool_.n_threads() == 1 || items_.size() >= kItemsPerThread * pool_.n_threads()) return false;
  return std::any_of(items_.begin(), items_.end(),
                     [](const AttendTask& item) { return length(splits_seen_by(item)) > 1; });
}

void Attention::run_shared() {
  uint32_t n_splits = 0;
  size_t partial = 0;
  for (const AttendTask& item : items_) {
    n_splits = std::max(n_splits, length(splits_seen_by(item)));
    partial = std::max(partial, partial_floats(item));
  }
  grow(partials_, memory_, items_.size() * (std::min(n_splits, kWaveSplits) + 1) * partial);
  for (uint32_t wave = 0; wave * kWaveSplits < n_splits; ++wave) {
    run_wave(wave, (std::min(n_splits, kWaveSplits) + 1) * partial);
  }
}

void Attention::run_wave(uint32_t wave, size_t item_floats) {
  const auto merged_of = [&](size_t item) { return partials_.floats() + item * item_floats; };
  const auto partials_of = [&](size_t item) {
    return merged_of(item) + partial_floats(items_[item]);
  };
  uint32_t n_splits = 0;
  for (const AttendTask& item : items_) {
    n_splits = std::max(n_splits, length(splits_of_wave(item, wave)));
  }
  pool_.run(items_.size() * n_splits, [&](size_t index, uint32_t thread) {
    const size_t item = index / n_splits;
    const auto i = static_cast<uint32_t>(index % n_splits);
    const SplitRange splits = splits_of_wave(items_[item], wave);
    if (i >= length(splits)) return;
    kernels_.attend_split(with_scratch(items_[item], thread), splits.begin + i,
                          partials_of(item) + i * partial_floats(items_[item]));
  });
  pool_.run(items_.size(), [&](size_t item, uint32_t thread) {
    const SplitRange splits = splits_of_wave(items_[item], wave);
    if (length(splits) == 0) return;
    kernels_.merge_splits(with_scratch(items_[item], thread), splits, partials_of(item),
                          merged_of(item));
  });
}

}  // namespace kvik::cpu
