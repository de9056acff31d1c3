#include "backend/cpu/attention/attention.h"

#include <algorithm>
#include <iterator>

#include "backend/cpu/scratch.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

// Maximum number of query rows of a slice.
constexpr uint32_t kSliceRows = 16;
// Maximum number of pairs of a row and a query head that attend to shared pages in one task: four
// blocks of the kernel.
constexpr uint32_t kUnitPairs = 192;
// Slices are split if there would be fewer items per thread than this and splitting gives more
// items.
constexpr size_t kItemsPerThread = 4;
// The query heads of a KV head are divided into parts if there would be fewer items per thread than
// this, but not into parts of fewer heads than kLeastPartHeads: each part reads all of K and V.
constexpr size_t kLeastItemsPerThread = 2;
constexpr uint32_t kLeastPartHeads = 16;
// Limits of the KV heads that are processed together: pairs of a row and a query head, which fit
// into one block of the kernel, and bytes of K and V of a split. Those of two splits must fit into
// a second-level cache.
constexpr uint32_t kMaxHeadPairs = 48;
constexpr size_t kHeadsBytes = size_t{300} << 10;
// Limits of a wave, the splits between two merges. They bound the partial results for any context
// length.
constexpr uint32_t kMaxWaveSplits = 128;
constexpr size_t kWaveFloats = size_t{1} << 20;

SplitRange common(SplitRange a, SplitRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

Attention::Attention(const AttentionKernels& kernels, Memory& memory, ThreadPool& pool)
    : kernels_(kernels),
      memory_(memory),
      pool_(pool),
      scratch_(pool.n_threads()),
      copies_(memory, pool),
      tables_(pool),
      entries_(memory, pool) {}

void Attention::run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  if (shape.selected) return run_selected(kv, shape, q, out);
  run_rows(kv, layout_of(kv.geometry), shape, q, out, {});
}

// In each run, the first rows are those that could attend to so few tokens that they attend to all.
void Attention::run_selected(const KvTarget& kv, AttentionShape shape, Rows q, Rows out) {
  CHECK(shape.sinks == nullptr && shape.reach == AttentionReach::kEarlier);
  const SelectedTokens& selected = *shape.selected;
  const size_t n_listed = size_t{selected.n_lists} * selected.n_top;
  full_runs_.clear();
  selecting_rows_.clear();
  for (const KvRun& run : kv.runs) {
    uint32_t n_full = 0;
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const uint32_t position = run.first_position + i;
      if (n_visible(position, shape.window) <= selected.n_budget) {
        ++n_full;
        continue;
      }
      const uint32_t row = run.first_row + i;
      selecting_rows_.push_back(
          {&run, row, position, selected.blocks + selected.rows[row] * n_listed});
    }
    if (n_full == 0) continue;
    full_runs_.push_back(run);
    full_runs_.back().n_rows = n_full;
  }
  if (!full_runs_.empty()) {
    const KvTarget full = {.geometry = kv.geometry, .layer = kv.layer, .runs = full_runs_};
    run_rows(full, layout_of(kv.geometry), shape, q, out, {});
  }
  if (kv.geometry.latent_dim != 0) {
    run_copies(kv, shape, q, out);
  } else {
    run_tables(kv, shape, q, out);
  }
}

void Attention::run_copies(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  AttentionShape all = shape;
  all.window = 0;
  for (size_t first = 0; first < selecting_rows_.size(); first += copies_.n_rows_max()) {
    const auto rest = std::span<const SelectingRow>(selecting_rows_).subspan(first);
    copies_.gather(kv, *shape.selected, rest.first(std::min(rest.size(), copies_.n_rows_max())));
    const KvTarget copies = copies_.target();
    run_rows(copies, layout_of(copies.geometry), all, q, out, copies_.rows());
  }
}

void Attention::run_tables(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  const SelectedTokens& selected = *shape.selected;
  AttentionShape all = shape;
  all.window = 0;
  all.n_heads = shape.n_heads / kv.geometry.n_kv_heads;
  const size_t n_at_once = tables_.n_rows_max({.kv = kv.geometry,
                                               .n_heads = shape.n_heads,
                                               .n_top = selected.n_top,
                                               .block_tokens = selected.block_tokens});
  for (size_t first = 0; first < selecting_rows_.size(); first += n_at_once) {
    const auto rest = std::span<const SelectingRow>(selecting_rows_).subspan(first);
    tables_.list(kv, selected, shape.window, rest.first(std::min(rest.size(), n_at_once)));
    run_rows(tables_.target(), layout_of(kv.geometry), all, q, out, tables_.rows());
  }
}

void Attention::run_entries(const KvTarget& kv, const EntryTarget& entries,
                            const EntrySelection& selection, const AttentionShape& shape, Rows q,
                            Rows out) {
  CHECK(shape.window > 0 && !shape.selected && kv.runs.size() == entries.kv.runs.size());
  entry_rows_.clear();
  for (size_t i = 0; i < kv.runs.size(); ++i) {
    const KvRun& run = kv.runs[i];
    for (uint32_t r = 0; r < run.n_rows; ++r) {
      const uint32_t row = run.first_row + r;
      const uint32_t position = run.first_position + r;
      const uint32_t n_entries = (position + 1) / entries.n_tokens;
      const bool selects = n_entries > selection.n_top;
      entry_rows_.push_back(
          {.run = &run,
           .entry_run = &entries.kv.runs[i],
           .row = row,
           .position = position,
           .list =
               selects ? selection.lists + size_t{selection.rows[row]} * selection.stride : nullptr,
           .n_entries = selects ? selection.n_top : n_entries,
           .n_window = n_visible(position, shape.window)});
    }
  }
  AttentionShape all = shape;
  all.window = 0;
  for (size_t first = 0; first < entry_rows_.size(); first += entries_.n_rows_max()) {
    const auto rest = std::span<const EntryRow>(entry_rows_).subspan(first);
    entries_.gather(kv, entries, rest.first(std::min(rest.size(), entries_.n_rows_max())));
    const KvTarget copies = entries_.target();
    run_rows(copies, layout_of(copies.geometry), all, q, out, {});
  }
}

void Attention::run_rows(const KvTarget& kv, const KvBlockLayout& layout,
                         const AttentionShape& shape, Rows q, Rows out,
                         std::span<const SelectedRow> selected) {
  Call call{kv, layout, shape, shape.n_heads / kv.geometry.n_kv_heads};
  for (Buffer& scratch : scratch_) {
    grow(scratch, kernels_.scratch_floats(layout, call.group) * sizeof(float), memory_);
  }
  list_slices(call, q, out);
  if (!selected.empty()) narrow_rows(call, selected);
  choose_slices_to_split(call);
  divide_heads(call);
  if (!to_split_.empty()) return run_waves(call);
  pool_.run(whole_.size() * call.n_heads(),
            [&](size_t item, uint32_t thread) { attend_whole(call, item, thread); });
}

// A decoding row with one KV head would otherwise be computed by one thread up to kSplitTokens, and
// its shorter last split by one of two threads.
void Attention::divide_heads(Call& call) const {
  const size_t n_tasks = whole_.size() + (to_split_.empty() ? 0 : plan_.units().size());
  const size_t n_least = kLeastItemsPerThread * pool_.n_threads();
  while (pool_.n_threads() > 1 && n_tasks * call.n_heads() < n_least && call.group % 2 == 0 &&
         call.group / 2 >= kLeastPartHeads) {
    call.group /= 2;
    call.n_parts *= 2;
  }
  call.row_floats = partial_floats(call.layout, call.group);
}

// Sets what the rows read. A row of one KV head begins at this head's columns.
void Attention::narrow_rows(const Call& call, std::span<const SelectedRow> selected) {
  const KvGeometry& geometry = call.kv.geometry;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t first_head = size_t{selected[i].kv_head} * call.group;
    rows_[i].q += first_head * geometry.head_dim;
    rows_[i].out += first_head * geometry.value_dim();
    rows_[i].n_tokens = selected[i].n_tokens;
    rows_[i].masks = selected[i].masks;
  }
}

// All rows may be split. The partial results of a wave need at most kWaveFloats floats, unless
// those of a single split need more.
Attention::Needs Attention::needs_of(const WorkLimits& limits) const {
  Needs most{};
  for (const HeadsUse& use : limits.heads) {
    const uint32_t group = use.n_heads / use.kv.n_kv_heads;
    const KvBlockLayout layout = layout_of(use.kv);
    const size_t of_rows =
        size_t{limits.n_rows} * use.kv.n_kv_heads * partial_floats(layout, group);
    const size_t partials = std::min(kMaxWaveSplits * of_rows, std::max(kWaveFloats, of_rows));
    most = {.scratch = std::max(most.scratch, kernels_.scratch_floats(layout, group)),
            .merged = std::max(most.merged, of_rows),
            .partials = std::max(most.partials, partials)};
  }
  return most;
}

uint64_t Attention::scratch_bytes(const WorkLimits& limits) const {
  const Needs needs = needs_of(limits);
  uint64_t of_copies = 0;
  uint64_t of_tables = 0;
  uint64_t of_entries = 0;
  for (const HeadsUse& use : limits.heads) {
    if (use.n_copied > 0) {
      of_entries = std::max(of_entries, entries_.scratch_bytes(use));
      continue;
    }
    if (use.n_top == 0) continue;
    if (use.kv.latent_dim != 0) {
      of_copies = std::max(of_copies, copies_.scratch_bytes(use));
    } else {
      of_tables = std::max(of_tables, tables_.scratch_bytes(use));
    }
  }
  return (pool_.n_threads() * needs.scratch + needs.merged + needs.partials) * sizeof(float) +
         of_copies + of_tables + of_entries;
}

void Attention::reserve(const WorkLimits& limits) {
  const Needs needs = needs_of(limits);
  for (Buffer& scratch : scratch_) grow(scratch, needs.scratch * sizeof(float), memory_);
  grow(merged_, needs.merged * sizeof(float), memory_);
  grow(partials_, needs.partials * sizeof(float), memory_);
  size_t n_rows = limits.n_rows;
  size_t n_slices = limits.n_rows / kSliceRows + std::min(limits.n_rows, limits.n_sequences);
  for (const HeadsUse& use : limits.heads) {
    if (use.n_copied > 0) {
      entries_.reserve(use);
      entry_rows_.reserve(limits.n_rows);
      continue;
    }
    if (use.n_top == 0) continue;
    selecting_rows_.reserve(limits.n_rows);
    full_runs_.reserve(limits.n_sequences);
    if (use.kv.latent_dim != 0) {
      copies_.reserve(use);
      continue;
    }
    tables_.reserve(use);
    const size_t n_tables =
        std::min<size_t>(limits.n_rows, tables_.n_rows_max(use)) * use.kv.n_kv_heads;
    n_rows = std::max(n_rows, n_tables);
    n_slices = std::max(n_slices, n_tables);
  }
  rows_.reserve(n_rows);
  whole_.reserve(n_slices);
  to_split_.reserve(n_slices);
}

// Lists the last rows of a run first, because they attend furthest and take longest: no thread
// should be left alone with them at the end.
void Attention::list_slices(const Call& call, Rows q, Rows out) {
  const KvTarget& kv = call.kv;
  const bool is_both = call.shape.reach == AttentionReach::kBoth;
  size_t n_rows = 0;
  for (const KvRun& run : kv.runs) n_rows += run.n_rows;
  rows_.clear();
  rows_.reserve(n_rows);  // slices point into rows_
  whole_.clear();
  to_split_.clear();
  for (const KvRun& run : kv.runs) {
    const size_t begin = rows_.size();
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const size_t row = run.first_row + i;
      const uint32_t position = run.first_position + i;
      if (is_both) {
        const uint32_t last = call.shape.window == 0 ? run.n_rows - 1 : i + call.shape.window / 2;
        rows_.push_back(
            {q.data + row * q.stride, out.data + row * out.stride, last, nullptr, run.n_rows});
        continue;
      }
      rows_.push_back({q.data + row * q.stride, out.data + row * out.stride, position,
                       run.open.empty() ? nullptr : run.open[open_index(run, position)]});
    }
    for (uint32_t end = run.n_rows; end > 0; end = (end - 1) / kSliceRows * kSliceRows) {
      const uint32_t first = (end - 1) / kSliceRows * kSliceRows;
      const RowSlice slice = {.pages = run.pages.data(),
                              .rows = {rows_.data() + begin + first, end - first},
                              .is_whole_run = run.n_rows <= kSliceRows};
      (slice.is_whole_run ? to_split_ : whole_).push_back(slice);
    }
  }
}

// Moves slices between whole_ and to_split_. If there are too few slices for the threads, all are
// split, provided that they attend to more than one split. Otherwise those of short runs are split
// if some of them share pages, or if several KV heads are processed together. Slices that attend
// only to their open pages cannot be split.
void Attention::choose_slices_to_split(const Call& call) {
  const uint32_t window = call.shape.window;
  const auto sees_no_split = [&](const RowSlice& slice) {
    const SplitRange splits = visible_splits(slice.rows, window);
    return splits.begin == splits.end;
  };
  const auto keep_whole = [&] {
    std::ranges::copy_if(to_split_, std::back_inserter(whole_), sees_no_split);
    std::erase_if(to_split_, sees_no_split);
  };
  const uint32_t n_unit_rows = std::max(1u, kUnitPairs / call.group);
  const size_t n_items = (whole_.size() + to_split_.size()) * call.kv.geometry.n_kv_heads;
  if (pool_.n_threads() > 1 && n_items < kItemsPerThread * pool_.n_threads()) {
    to_split_.insert(to_split_.end(), whole_.begin(), whole_.end());
    whole_.clear();
    keep_whole();
    plan_.group(to_split_, window, n_unit_rows);
    if (plan_.splits().end - plan_.splits().begin > 1) return;
  } else {
    keep_whole();
    plan_.group(to_split_, window, n_unit_rows);
    if (plan_.shares() || heads_at_once(call, plan_.units().size()) > 1) return;
  }
  whole_.insert(whole_.end(), to_split_.begin(), to_split_.end());
  to_split_.clear();
}

AttendTask Attention::task(const Call& call, uint32_t head, uint32_t thread) const {
  const KvGeometry& geometry = call.kv.geometry;
  return {.layout = call.layout,
          .block_offset = block_offset(call.kv, head / call.n_parts),
          .pages = nullptr,
          .rows = nullptr,
          .n_rows = 0,
          .first_column = head * call.group * geometry.head_dim,
          .first_out_column = head * call.group * geometry.value_dim(),
          .group = call.group,
          .scale = call.shape.scale,
          .soft_cap = call.shape.soft_cap,
          .window = call.shape.window,
          .scratch = scratch_[thread].floats(),
          .sinks = call.shape.sinks ? call.shape.sinks + head * call.group : nullptr,
          .open_block_offset = open_block_offset(call.kv, head / call.n_parts)};
}

void Attention::attend_whole(const Call& call, size_t item, uint32_t thread) {
  const uint32_t n_heads = call.n_heads();
  const RowSlice& slice = whole_[item / n_heads];
  AttendTask t = task(call, static_cast<uint32_t>(item % n_heads), thread);
  t.pages = slice.pages;
  t.rows = slice.rows.data();
  t.n_rows = static_cast<uint32_t>(slice.rows.size());
  kernels_.attend(t);
}

// Returns the number of splits per wave.
uint32_t Attention::wave_splits(const Call& call) const {
  size_t n_rows = 0;
  for (const RowSlice& slice : to_split_) n_rows += slice.rows.size();
  const size_t split_floats = n_rows * call.n_heads() * call.row_floats;
  return static_cast<uint32_t>(std::clamp<size_t>(kWaveFloats / split_floats, 1, kMaxWaveSplits));
}

// Computes the slices to split in waves: first the partial results of all splits of a wave, then
// their merge. The first wave also computes the slices that are not split.
void Attention::run_waves(const Call& call) {
  const size_t n_heads = call.n_heads();
  const std::span<const SplitUnit> units = plan_.units();
  const uint32_t n_splits = wave_splits(call);
  grow(merged_, rows_.size() * n_heads * call.row_floats * sizeof(float), memory_);
  size_t n_whole = whole_.size() * n_heads;
  for (size_t first = 0; first < units.size();) {
    const uint32_t end_split = units[first].split + n_splits;
    size_t end = first;
    while (end < units.size() && units[end].split < end_split) ++end;
    const Wave wave{{units[first].split, end_split}, first, end};
    const size_t n_rows = units[end - 1].first_row + units[end - 1].n_rows - units[first].first_row;
    grow(partials_, n_rows * n_heads * call.row_floats * sizeof(float), memory_);
    attend_units(call, wave, n_whole);
    merge_wave(call, wave);
    n_whole = 0;
    first = end;
  }
}

// Computes the first n_whole items of slices that are not split, then all units of a wave.
void Attention::attend_units(const Call& call, const Wave& wave, size_t n_whole) {
  const size_t n_heads = call.n_heads();
  const std::span<const SplitUnit> units = plan_.units().subspan(wave.first_unit);
  const size_t n_units = wave.end_unit - wave.first_unit;
  const uint32_t n_joined = heads_at_once(call, n_units);
  const size_t n_sets = n_heads / n_joined;
  const size_t n_items = n_units * n_sets;
  pool_.run(n_whole + n_items, [&](size_t index, uint32_t thread) {
    if (index < n_whole) return attend_whole(call, index, thread);
    const size_t item = index - n_whole;
    const SplitUnit& unit = units[item / n_sets];
    const auto head = static_cast<uint32_t>(item % n_sets * n_joined);
    AttendTask t = task(call, head, thread);
    t.pages = unit.pages;
    t.rows = &plan_.rows()[unit.first_row];
    t.n_rows = unit.n_rows;
    t.n_kv_heads = n_joined;
    KeysAhead ahead;
    // Usually the same thread computes the next item.
    if (const size_t next = item + 1; next < n_items) {
      const SplitUnit& unit_ahead = units[next / n_sets];
      ahead = {.pages = unit_ahead.pages + size_t{unit_ahead.split} * kSplitTokens / kPageTokens,
               .n_pages = unit_ahead.n_pages,
               .block_offset = block_offset(
                   call.kv, static_cast<uint32_t>(next % n_sets * n_joined) / call.n_parts)};
    }
    const size_t row_before = unit.first_row - units.front().first_row;
    kernels_.attend_split(
        t, unit.split, ahead,
        partials_.floats() + (row_before * n_heads + head * unit.n_rows) * call.row_floats);
  });
}

// Several KV heads of decoding rows are processed together if their K and V are long runs of
// memory, which are read faster, and if there are enough items for the threads.
uint32_t Attention::heads_at_once(const Call& call, size_t n_units) const {
  if (call.n_parts > 1 || !call.layout.has_values_apart()) return 1;
  const auto has_one_row = [](const RowSlice& slice) { return slice.rows.size() == 1; };
  if (plan_.shares() || !std::ranges::all_of(to_split_, has_one_row)) return 1;
  const uint32_t n_heads = call.kv.geometry.n_kv_heads;
  const size_t split_bytes = call.layout.head_bytes() * kSplitTokens / kPageTokens;
  for (uint32_t n = n_heads; n > 1; --n) {
    if (n_heads % n == 0 && n * call.group <= kMaxHeadPairs && n * split_bytes <= kHeadsBytes &&
        n_units * (n_heads / n) >= kItemsPerThread * pool_.n_threads()) {
      return n;
    }
  }
  return 1;
}

void Attention::merge_wave(const Call& call, const Wave& wave) {
  const size_t n_heads = call.n_heads();
  const std::span<const SplitUnit> units = plan_.units();
  pool_.run(to_split_.size() * n_heads, [&](size_t item, uint32_t thread) {
    const size_t slice = item / n_heads;
    const auto head = static_cast<uint32_t>(item % n_heads);
    const std::span<const QueryRow> rows = to_split_[slice].rows;
    const SplitRange splits = common(visible_splits(rows, call.shape.window), wave.splits);
    if (splits.begin >= splits.end) return;
    SplitPart parts[kMaxWaveSplits];
    for (uint32_t split = splits.begin; split < splits.end; ++split) {
      const UnitPart part = plan_.part(slice, split);
      const SplitUnit& unit = units[part.unit];
      const size_t row_before = unit.first_row - units[wave.first_unit].first_row;
      parts[split - splits.begin] = {
          partials_.floats() + (row_before * n_heads + head * unit.n_rows) * call.row_floats,
          unit.n_rows, part.first_row};
    }
    AttendTask t = task(call, head, thread);
    t.rows = rows.data();
    t.n_rows = static_cast<uint32_t>(rows.size());
    const size_t first_row = rows.data() - rows_.data();
    kernels_.merge_splits(
        t, splits, parts,
        merged_.floats() + (first_row * n_heads + head * rows.size()) * call.row_floats);
  });
}

}  // namespace kvik::cpu
