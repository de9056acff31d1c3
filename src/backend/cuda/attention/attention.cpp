#include "backend/cuda/attention/attention.h"

#include <algorithm>
#include <iterator>

#include "backend/layout/kv_block.h"
#include "base/check.h"

namespace kvik::cuda {
namespace {

// Maximum number of query rows of a slice.
constexpr uint32_t kSliceRows = 16;
// Maximum number of rows that attend to shared pages together.
constexpr uint32_t kUnitRows = 64;
// Slices are split if the grid would have fewer thread blocks per multiprocessor than this.
constexpr uint32_t kBlocksPerProcessor = 4;
// Maximum size of partial results. Slices are not split if they would need more.
constexpr uint64_t kMaxPartialBytes = uint64_t{128} << 20;

uint32_t round_up(uint32_t n, uint32_t unit) { return ceil_div(n, unit) * unit; }

PageType page_type(KvType type) {
  switch (type) {
    case KvType::kF32:
      return PageType::kF32;
    case KvType::kBF16:
      return PageType::kBF16;
    case KvType::kInt8:
      return PageType::kInt8;
    case KvType::kInt8Int4:
      return PageType::kInt8Int4;
    case KvType::kInt4:
      break;
  }
  return PageType::kInt4;
}

PageLayout page_layout_of(const KvGeometry& geometry) {
  const KvBlockLayout layout = layout_of(geometry);
  const bool has_int4_keys = layout.key_type() == KvType::kInt4;
  const bool has_int4_values = layout.value_type() == KvType::kInt4;
  CHECK(geometry.head_dim <= kMaxHeadDim);
  CHECK(layout.n_key_groups() <= kMaxKeyGroups);
  return {.type = page_type(geometry.type),
          .head_dim = geometry.head_dim,
          .latent_dim = geometry.latent_dim,
          .value_dim = geometry.value_dim(),
          .key_dims = round_up(geometry.head_dim, has_int4_keys ? 8 : 4),
          .value_dims = round_up(geometry.value_dim(), has_int4_values ? 32 : 16),
          .has_int4_keys = has_int4_keys,
          .has_int4_values = has_int4_values,
          .rotates_keys = layout.rotates_keys(),
          .keys_by_channel = geometry.keys_by_channel,
          .key_group_dims = layout.key_group_dims(),
          .value_group_dims = layout.value_group_dims(),
          .n_key_groups = layout.n_key_groups(),
          .n_value_groups = layout.n_value_groups(),
          .value_offset = layout.value_offset(),
          .v_bytes = layout.v_bytes(),
          .head_stride = layout.head_stride()};
}

// AttentionPlan identifies rows by pointers that it does not dereference. Here these are row
// numbers.
const float* row_as_pointer(uint32_t row) { return reinterpret_cast<const float*>(uintptr_t{row}); }
uint32_t row_of(const QueryRow& row) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row.q));
}

uint64_t partial_bytes(uint64_t n_rows, uint32_t n_heads, uint32_t value_dim) {
  return n_rows * n_heads * (value_dim + 2) * sizeof(float);
}

uint64_t query_bytes(uint64_t n_queries, uint32_t head_dim) {
  return n_queries * (round_up(head_dim, 8) + (1 + kMaxKeyGroups) * sizeof(float));
}

}  // namespace

Attention::Needs Attention::needs_of(const WorkLimits& limits) const {
  Needs most{};
  for (const HeadsUse& use : limits.heads) {
    const uint64_t n_splits = limits.n_ctx / kSplitTokens + 1;
    const uint64_t of_rows = partial_bytes(limits.n_rows, use.n_heads, use.kv.value_dim());
    const uint64_t of_splits = std::max(of_rows, std::min(n_splits * of_rows, kMaxPartialBytes));
    const uint64_t of_open_pages = kvik::has_open_pages(use.kv.type) ? of_rows : 0;
    most.partials = std::max(most.partials, of_splits + of_open_pages);
    if (!is_quantized(use.kv.type)) continue;
    most.queries =
        std::max(most.queries, query_bytes(uint64_t{limits.n_rows} * use.n_heads, use.kv.head_dim));
  }
  return most;
}

uint64_t Attention::scratch_bytes(const WorkLimits& limits) const {
  const Needs needs = needs_of(limits);
  return needs.partials + needs.queries;
}

void Attention::reserve(const WorkLimits& limits) {
  const Needs needs = needs_of(limits);
  memory_.grow(partials_, needs.partials);
  memory_.grow(queries_, needs.queries);
}

void Attention::list_runs(const KvTarget& kv) {
  key_.pages.clear();
  key_.runs.clear();
  open_pages_.clear();
  for (const KvRun& run : kv.runs) {
    key_.pages.insert(key_.pages.end(), run.pages.begin(), run.pages.end());
    open_pages_.insert(open_pages_.end(), run.open.begin(), run.open.end());
    key_.runs.push_back({run.first_position, run.first_row, run.n_rows,
                         static_cast<uint32_t>(run.pages.size()),
                         static_cast<uint32_t>(run.open.size())});
  }
}

// Lists the rows of all runs at positions in their open pages. The open pages of a run are treated
// as a sequence that begins with the first of them.
void Attention::place_open_rows(std::vector<PlacedRow>& out) const {
  out.clear();
  uint32_t first_page = 0;
  for (const RunPlace& run : key_.runs) {
    if (run.n_open_pages == 0) continue;
    const uint32_t before = run.first_position / kPageTokens * kPageTokens;
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      out.push_back({run.first_row + i, run.first_position + i - before, first_page});
    }
    first_page += run.n_open_pages;
  }
}

const uint8_t* const* Attention::put_pages(const std::vector<const std::byte*>& pages) {
  return reinterpret_cast<const uint8_t* const*>(tables_.put<const std::byte*>(pages));
}

void Attention::change_basis(Rows x, const HeadBasis& basis) {
  if (x.n_rows == 0) return;
  CHECK(basis.head_dim <= kMaxHeadDim);
  const Grid grid = {.x = x.n_cols / basis.head_dim,
                     .y = grid_rows(x.n_rows),
                     .z = 1,
                     .n_threads = kAttendThreads};
  require(stream_.launch(kernels_.change_basis, grid,
                         {.x = x.data,
                          .stride = x.stride,
                          .n_rows = x.n_rows,
                          .head_dim = basis.head_dim,
                          .group = basis.group,
                          .centers = basis.centers,
                          .factors = basis.factors,
                          .rotates = basis.rotation != HeadRotation::kNone,
                          .rotates_back = basis.rotation == HeadRotation::kBack}));
}

void Attention::write_kv(const KvTarget& kv, Rows k, Rows v) {
  list_runs(kv);
  written_.clear();
  uint32_t first_page = 0;
  for (const RunPlace& run : key_.runs) {
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      written_.push_back({run.first_row + i, run.first_position + i, first_page});
    }
    first_page += run.n_pages;
  }
  if (written_.empty()) return;
  const PageLayout layout = page_layout_of(kv.geometry);
  write_pages({layout, key_.pages, block_offset(kv, 0)}, k, v);
  if (!has_open_pages()) return;
  place_open_rows(written_);
  const PageLayout open_layout = page_layout_of(kv.geometry.of_open_pages());
  write_pages({open_layout, open_pages_, open_block_offset(kv, 0)}, k, v);
  if (kv.geometry.keys_by_channel) write_channels(kv);
}

// Writes K by channel of those pages that the runs have filled.
void Attention::write_channels(const KvTarget& kv) {
  full_pages_.clear();
  full_open_pages_.clear();
  for (const KvRun& run : kv.runs) {
    const uint32_t first = run.first_position / kPageTokens;
    const uint32_t end = (run.first_position + run.n_rows) / kPageTokens;
    for (uint32_t page = first; page < end; ++page) {
      full_pages_.push_back(run.pages[page]);
      full_open_pages_.push_back(run.open[page - first]);
    }
  }
  if (full_pages_.empty()) return;
  const auto n_pages = static_cast<uint32_t>(full_pages_.size());
  const Grid grid = {
      .x = kv.geometry.n_kv_heads, .y = grid_rows(n_pages), .z = 1, .n_threads = kAttendThreads};
  require(stream_.launch(
      kernels_.write_channels, grid,
      {.layout = page_layout_of(kv.geometry),
       .pages = put_pages(full_pages_),
       .open_pages = put_pages(full_open_pages_),
       .n_pages = n_pages,
       .first_block = block_offset(kv, 0),
       .first_open_block = open_block_offset(kv, 0),
       .open_head_stride = page_layout_of(kv.geometry.of_open_pages()).head_stride}));
}

void Attention::write_pages(const WrittenPages& to, Rows k, Rows v) {
  const bool has_values = to.layout.latent_dim == 0;
  const auto n_rows = static_cast<uint32_t>(written_.size());
  const Grid grid = {.x = k.n_cols / to.layout.head_dim,
                     .y = grid_rows(n_rows),
                     .z = 1,
                     .n_threads = kAttendThreads};
  require(stream_.launch(kernels_.write, grid,
                         {.layout = to.layout,
                          .rows = tables_.put<PlacedRow>(written_),
                          .n_rows = n_rows,
                          .pages = put_pages(to.pages),
                          .first_block = to.first_block,
                          .k = k.data,
                          .v = has_values ? v.data : nullptr,
                          .k_stride = k.stride,
                          .v_stride = v.stride}));
}

void Attention::list_slices() {
  size_t n_rows = 0;
  for (const RunPlace& run : key_.runs) n_rows += run.n_rows;
  rows_.clear();
  rows_.reserve(n_rows);  // slices point into rows_
  whole_.clear();
  to_split_.clear();
  size_t first_page = 0;
  for (const RunPlace& run : key_.runs) {
    const size_t begin = rows_.size();
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      rows_.push_back({row_as_pointer(run.first_row + i), nullptr, run.first_position + i,
                       has_open_pages() ? open_pages_.front() : nullptr});
    }
    for (uint32_t first = 0; first < run.n_rows; first += kSliceRows) {
      const RowSlice slice = {
          .pages = key_.pages.data() + first_page,
          .rows = {rows_.data() + begin + first, std::min(kSliceRows, run.n_rows - first)},
          .is_whole_run = run.n_rows <= kSliceRows};
      (slice.is_whole_run ? to_split_ : whole_).push_back(slice);
    }
    first_page += run.n_pages;
  }
}

// Moves slices between whole_ and to_split_. All slices are split if there are too few to fill the
// device; otherwise those of short runs are split if some of them share pages. In both cases only
// if the partial results are not too large.
void Attention::choose_slices_to_split() {
  const uint64_t n_blocks = uint64_t{whole_.size() + to_split_.size()} * key_.n_kv_heads;
  const bool are_few = n_blocks < kBlocksPerProcessor * stream_.info().n_processors;
  if (are_few) {
    to_split_.insert(to_split_.end(), whole_.begin(), whole_.end());
    whole_.clear();
  }
  const auto sees_no_split = [&](const RowSlice& slice) {
    const SplitRange splits = visible_splits(slice.rows, key_.window);
    return splits.begin == splits.end;
  };
  std::ranges::copy_if(to_split_, std::back_inserter(whole_), sees_no_split);
  std::erase_if(to_split_, sees_no_split);
  uint64_t n_parts = 0;
  for (const RowSlice& slice : to_split_) {
    const SplitRange seen = visible_splits(slice.rows, key_.window);
    n_parts += uint64_t{slice.rows.size()} * (seen.end - seen.begin);
  }
  if (partial_bytes(n_parts, key_.n_heads, key_.value_dim) <= kMaxPartialBytes) {
    plan_.group(to_split_, key_.window, kUnitRows);
    if (plan_.shares() || (are_few && plan_.splits().end - plan_.splits().begin > 1)) return;
  }
  whole_.insert(whole_.end(), to_split_.begin(), to_split_.end());
  to_split_.clear();
}

// Lists the rows of the plan's units, then those of slices that are not split. The index of a row
// in the list is also that of its partial results.
void Attention::list_items(Plan& plan) {
  plan.rows.clear();
  plan.items.clear();
  const auto add = [&](std::span<const QueryRow> rows, const std::byte* const* pages,
                       SplitRange splits) {
    const auto first_page = static_cast<uint32_t>(pages - key_.pages.data());
    if (splits.begin != splits.end) {
      plan.items.push_back({.first_row = static_cast<uint32_t>(plan.rows.size()),
                            .n_rows = static_cast<uint32_t>(rows.size()),
                            .first_page = first_page,
                            .first_split = splits.begin,
                            .n_splits = splits.end - splits.begin});
    }
    for (const QueryRow& row : rows) {
      plan.rows.push_back({row_of(row), row.position, first_page});
    }
  };
  if (!to_split_.empty()) {
    for (const SplitUnit& unit : plan_.units()) {
      add(plan_.rows().subspan(unit.first_row, unit.n_rows), unit.pages,
          {unit.split, unit.split + 1});
    }
  }
  for (const RowSlice& slice : whole_) {
    add(slice.rows, slice.pages, visible_splits(slice.rows, key_.window));
  }
}

// Lists items of consecutive rows that have the same open page.
void Attention::list_open_items(Plan& plan) {
  place_open_rows(plan.open_rows);
  plan.open_items.clear();
  const auto n_rows = static_cast<uint32_t>(plan.open_rows.size());
  for (uint32_t first = 0, end; first < n_rows; first = end) {
    const auto page_of = [&](uint32_t i) {
      return plan.open_rows[i].first_page + plan.open_rows[i].position / kPageTokens;
    };
    const uint32_t page = page_of(first);
    end = first + 1;
    while (end < n_rows && end - first < kSliceRows && page_of(end) == page) ++end;
    plan.open_items.push_back({.first_row = first,
                               .n_rows = end - first,
                               .first_page = page,
                               .first_split = 0,
                               .n_splits = 1});
  }
  // The attention kernel treats each open page as a sequence of its own.
  for (PlacedRow& row : plan.open_rows) row.position %= kPageTokens;
}

// Lists, for each row, the partial results to merge: those of its splits in ascending order, or of
// its slice, then that of its open page.
void Attention::list_merges(Plan& plan) {
  plan.merges.clear();
  plan.parts.clear();
  const auto begin = [&](const QueryRow& row, uint32_t n_parts) {
    const uint32_t n_open = plan.open_rows.empty() ? 0 : 1;
    plan.merges.push_back(
        {row_of(row), static_cast<uint32_t>(plan.parts.size()), n_parts + n_open});
  };
  const auto end = [&](const QueryRow& row) {
    if (plan.open_rows.empty()) return;
    plan.parts.push_back(static_cast<uint32_t>(plan.rows.size() + (&row - rows_.data())));
  };
  for (size_t s = 0; s < to_split_.size(); ++s) {
    for (uint32_t i = 0; i < to_split_[s].rows.size(); ++i) {
      const QueryRow& row = to_split_[s].rows[i];
      const SplitRange seen = visible_splits({&row, 1}, key_.window);
      begin(row, seen.end - seen.begin);
      for (uint32_t split = seen.begin; split < seen.end; ++split) {
        const UnitPart part = plan_.part(s, split);
        plan.parts.push_back(plan_.units()[part.unit].first_row + part.first_row + i);
      }
      end(row);
    }
  }
  auto next = static_cast<uint32_t>(to_split_.empty() ? 0 : plan_.rows().size());
  for (const RowSlice& slice : whole_) {
    for (const QueryRow& row : slice.rows) {
      const SplitRange seen = visible_splits({&row, 1}, key_.window);
      const uint32_t part = next++;
      begin(row, seen.begin == seen.end ? 0 : 1);
      if (seen.begin != seen.end) plan.parts.push_back(part);
      end(row);
    }
  }
}

// Returns the plan of an earlier call with the same pages, rows and shape, or makes a new one in
// place of the least recently used.
const Attention::Plan& Attention::plan_for(const KvTarget& kv, const AttentionShape& shape) {
  list_runs(kv);
  key_.window = shape.window;
  key_.n_heads = shape.n_heads;
  key_.n_kv_heads = kv.geometry.n_kv_heads;
  key_.value_dim = kv.geometry.value_dim();
  ++now_;
  for (Plan& plan : plans_) {
    if (plan.key != key_) continue;
    plan.used_at = now_;
    return plan;
  }
  if (plans_.size() < kMaxPlans) plans_.emplace_back();
  Plan& plan = *std::ranges::min_element(plans_, {}, &Plan::used_at);
  list_slices();
  choose_slices_to_split();
  list_items(plan);
  list_open_items(plan);
  list_merges(plan);
  plan.key = key_;
  plan.used_at = now_;
  return plan;
}

// Launches the kernel that quantizes the queries, and returns where it writes them.
Queries Attention::queries_of(const PageLayout& layout, const AttentionShape& shape, Rows q) {
  const uint64_t n_queries = uint64_t{q.n_rows} * shape.n_heads;
  memory_.grow(queries_, query_bytes(n_queries, layout.head_dim));
  float* scales = queries_.floats();
  float* group_scales = scales + n_queries;
  const Queries out = {
      .levels = reinterpret_cast<int8_t*>(group_scales + n_queries * kMaxKeyGroups),
      .scales = scales,
      .group_scales = group_scales};
  const Grid grid = {
      .x = shape.n_heads, .y = grid_rows(q.n_rows), .z = 1, .n_threads = kAttendThreads};
  require(stream_.launch(kernels_.prepare_queries, grid,
                         {.layout = layout,
                          .q = q.data,
                          .stride = q.stride,
                          .n_rows = q.n_rows,
                          .n_heads = shape.n_heads,
                          .scale = shape.scale,
                          .out = out}));
  return out;
}

void Attention::run(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  const PageLayout layout = page_layout_of(kv.geometry);
  const Plan& plan = plan_for(kv, shape);
  if (plan.rows.empty()) return;
  const size_t n_parts = plan.rows.size() + plan.open_rows.size();
  memory_.grow(partials_, partial_bytes(n_parts, shape.n_heads, layout.value_dim));
  const auto blocks_of = [&](const std::vector<AttendItem>& items) -> Grid {
    return {.x = static_cast<uint32_t>(items.size()),
            .y = kv.geometry.n_kv_heads,
            .z = 1,
            .n_threads = kAttendThreads};
  };
  AttendTask task = {.layout = layout,
                     .items = tables_.put<AttendItem>(plan.items),
                     .rows = tables_.put<PlacedRow>(plan.rows),
                     .pages = put_pages(key_.pages),
                     .first_block = block_offset(kv, 0),
                     .q = q.data,
                     .q_stride = q.stride,
                     .queries = {},
                     .n_heads = shape.n_heads,
                     .group = shape.n_heads / kv.geometry.n_kv_heads,
                     .scale = shape.scale,
                     .soft_cap = shape.soft_cap,
                     .window = shape.window,
                     .ends_before_own_page = has_open_pages(),
                     .partials = partials_.floats()};
  if (!plan.items.empty()) {
    if (is_quantized(kv.geometry.type)) task.queries = queries_of(layout, shape, q);
    require(stream_.launch(kernels_.attend[static_cast<size_t>(layout.type)], blocks_of(plan.items),
                           task));
  }
  if (has_open_pages()) {
    task.layout = page_layout_of(kv.geometry.of_open_pages());
    task.items = tables_.put<AttendItem>(plan.open_items);
    task.rows = tables_.put<PlacedRow>(plan.open_rows);
    task.pages = put_pages(open_pages_);
    task.first_block = open_block_offset(kv, 0);
    task.ends_before_own_page = false;
    task.partials +=
        partial_bytes(plan.rows.size(), shape.n_heads, layout.value_dim) / sizeof(float);
    require(stream_.launch(kernels_.attend[static_cast<size_t>(task.layout.type)],
                           blocks_of(plan.open_items), task));
  }
  const auto n_rows = static_cast<uint32_t>(plan.merges.size());
  const Grid merging = {
      .x = shape.n_heads, .y = grid_rows(n_rows), .z = 1, .n_threads = kAttendThreads};
  require(stream_.launch(kernels_.merge, merging,
                         {.layout = layout,
                          .rows = tables_.put<MergeRow>(plan.merges),
                          .parts = tables_.put<uint32_t>(plan.parts),
                          .partials = partials_.floats(),
                          .n_rows = n_rows,
                          .n_heads = shape.n_heads,
                          .ends_with_open_page = has_open_pages(),
                          .sinks = shape.sinks,
                          .out = out.data,
                          .out_stride = out.stride}));
}

}  // namespace kvik::cuda
