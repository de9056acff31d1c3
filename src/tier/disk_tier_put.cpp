#include <algorithm>
#include <set>

#include "base/log.h"
#include "tier/disk_tier.h"
#include "tier/page_record.h"

// Storing pages in a DiskTier, and eviction.
namespace kvik {
namespace {

constexpr uint64_t kRowBytes = 640;                // index bytes per slot
constexpr uint64_t kLogBytes = uint64_t{1} << 20;  // bytes of the index's write-ahead log
constexpr size_t kLeavesLookedAt = 64;

}  // namespace

// Rows of evicted pages are deleted before their slots are overwritten, and rows of new pages are
// added afterwards: a kill in between loses pages, but never mixes them up.
Result<void> DiskTier::put(std::span<Put> pages) {
  const MutexLock puts(put_mutex_);
  std::vector<Placed> placed;
  {
    const MutexLock lock(mutex_);
    TRY(check_folder());
    auto found = place(pages);
    if (!found) return std::unexpected<Error>(restore(found.error()));
    placed = std::move(*found);
  }
  if (placed.empty()) return {};
  const Result<void> written = write(placed);
  const MutexLock lock(mutex_);
  Result<void> done = written ? insert(placed) : written;
  if (done) {
    done = write_touches();
  } else {
    give_back(placed);
  }
  if (done) return {};
  return std::unexpected<Error>(restore(done.error()));
}

// Updates the mark of a page that is stored already.
Result<bool> DiskTier::is_known(const TierPage& page) {
  TRY_ASSIGN(const auto row, folder_->index->find(page.key, page.group));
  if (!row) return false;
  touch(page);
  const SharingMark both = joined(row->known, page.known);
  if (both != row->known) TRY(folder_->index->mark(page.key, page.group, both));
  return true;
}

// Returns whether a lookup from the root reaches the page. A snapshot depends on the pages of the
// layer groups.
Result<bool> DiskTier::has_parent(const TierPage& page, std::span<const Placed> placed) {
  const uint32_t group = page.group >= kSnapshotGroup ? 0 : page.group;
  const auto is_parent = [&](const Placed& other) {
    return other.put->page.key == page.parent && other.put->page.group == group;
  };
  if (page.parent == page.root || std::ranges::any_of(placed, is_parent)) return true;
  TRY_ASSIGN(const auto row, folder_->index->find(page.parent, group));
  return row.has_value();
}

// Assigns a slot to each new page for which there is room.
Result<std::vector<DiskTier::Placed>> DiskTier::place(std::span<Put> pages) {
  std::vector<Placed> placed;
  TRY(change_index([&]() REQUIRES(mutex_) -> Result<void> {
    for (Put& put : pages) {
      const auto is_same = [&](const Placed& other) { return other.put->page == put.page; };
      TRY_ASSIGN(const bool known, is_known(put.page));
      if (known) continue;
      if (const auto same = std::ranges::find_if(placed, is_same); same != placed.end()) {
        same->put->page.known = joined(same->put->page.known, put.page.known);
        continue;
      }
      const uint64_t n_bytes = slot_bytes(put.n_bytes);
      TRY_ASSIGN(auto slot, find_free(n_bytes));
      if (!slot) {  // do not evict pages for one that cannot be reached
        TRY_ASSIGN(const bool is_reachable, has_parent(put.page, placed));
        if (is_reachable) {
          TRY_ASSIGN(slot, make_room(n_bytes, pages));
        }
      }
      if (!slot) continue;
      placed.push_back({&put, *slot, n_bytes, *folder_->files->find(slot->segment)});
    }
    return {};
  }));
  return placed;
}

// Applies changes to the index in one transaction. If it fails, the index has its former rows
// again, and the tables are read from it; pages of segments that were removed stay removed.
Result<void> DiskTier::change_index(const std::function<Result<void>()>& change) {
  const uint64_t n_evictions = n_evictions_;
  dropped_.clear();
  Result<void> done = folder_->index->in_transaction(change);
  if (done) return done;
  n_evictions_ = n_evictions;
  Result<void> repaired;
  if (!dropped_.empty()) {
    repaired = folder_->index->in_transaction([&]() REQUIRES(mutex_) -> Result<void> {
      for (const uint32_t id : dropped_) TRY(drop_rows(id));
      return {};
    });
  }
  if (repaired) repaired = read_index();
  if (!repaired && repaired.error().code != ErrorCode::kCorrupt) folder_.reset();
  return done;
}

std::optional<SlotId> DiskTier::take_free_slot(uint64_t slot_bytes) {
  auto& free = free_slots_[slot_bytes];
  const std::span<const SlotId> reading = reading_;
  const auto is_free = [&](SlotId slot) { return std::ranges::count(reading, slot) == 0; };
  const auto it = std::find_if(free.rbegin(), free.rend(), is_free);
  if (it == free.rend()) return std::nullopt;
  const SlotId slot = *it;
  free.erase(std::next(it).base());
  return slot;
}

Result<std::optional<SlotId>> DiskTier::find_free(uint64_t slot_bytes) {
  if (const auto slot = take_free_slot(slot_bytes)) return slot;
  TRY(add_segment(slot_bytes));
  return take_free_slot(slot_bytes);
}

// Evicts a page and returns its slot; std::nullopt if none can be evicted.
Result<std::optional<SlotId>> DiskTier::make_room(uint64_t slot_bytes, std::span<Put> pages) {
  TRY_ASSIGN(const auto leaf, oldest_leaf(slot_bytes, pages));
  TRY_ASSIGN(const auto stale, stale_segment(slot_bytes, leaf ? leaf->last_use : UINT64_MAX));
  if (stale) {
    TRY(drop_segment(*stale));
    TRY_ASSIGN(const auto slot, find_free(slot_bytes));
    if (slot) return slot;
  }
  if (!leaf) return std::nullopt;
  TRY(drop_row(*leaf));
  return leaf->slot;
}

// Adds a segment if budget and device have room for it. The first segment must be possible.
Result<void> DiskTier::add_segment(uint64_t slot_bytes) {
  const uint64_t max_bytes = options_.max_bytes - kLogBytes;
  const uint64_t used = folder_->files->n_bytes() / slot_bytes * (slot_bytes + kRowBytes);
  const uint64_t room = max_bytes > used ? (max_bytes - used) / (slot_bytes + kRowBytes) : 0;
  const uint64_t wanted =
      std::max<uint64_t>(std::min(SegmentFiles::kMaxBytes, options_.max_bytes / 8) / slot_bytes, 1);
  const auto n_slots = static_cast<uint32_t>(std::min(room, wanted));
  if (n_slots == 0) return {};
  const auto id = folder_->files->add(slot_bytes, n_slots);
  if (!id) {
    if (folder_->files->segments().empty()) return std::unexpected<Error>(id.error());
    if (!is_device_full_) log::warn("disk tier: cannot grow: {}", id.error().message);
    is_device_full_ = true;
    return {};
  }
  is_device_full_ = false;
  n_bytes_ = folder_->files->n_bytes();
  folder_->index->expect_rows(folder_->files->n_slots());
  auto& free = free_slots_[slot_bytes];
  for (uint32_t slot = n_slots; slot > 0; --slot) free.push_back({*id, slot - 1});
  return {};
}

// Returns the least recently used page without children, but never a parent of the pages to be
// stored.
Result<std::optional<DiskIndex::Row>> DiskTier::oldest_leaf(uint64_t slot_bytes,
                                                            std::span<Put> pages) {
  TRY_ASSIGN(const auto leaves, folder_->index->oldest_leaves(slot_bytes, kLeavesLookedAt));
  for (const DiskIndex::Row& leaf : leaves) {
    const bool is_above =
        std::ranges::any_of(pages, [&](const Put& put) { return put.page.parent == leaf.key; });
    const SegmentFiles::Segment* segment = folder_->files->find(leaf.slot.segment);
    const bool is_there =
        segment && leaf.slot.slot < segment->n_slots && segment->slot_bytes == slot_bytes;
    if (is_above || !is_there || std::ranges::count(reading_, leaf.slot) > 0) continue;
    return std::optional(leaf);
  }
  return std::optional<DiskIndex::Row>();
}

// Returns a segment with slots of another size that was last used before `before`: pages of another
// model are evicted by whole segments.
Result<std::optional<uint32_t>> DiskTier::stale_segment(uint64_t slot_bytes, uint64_t before) {
  std::set<uint64_t> sizes;
  for (const auto& [id, segment] : folder_->files->segments()) {
    if (segment.slot_bytes == slot_bytes) continue;
    const bool is_new_size = sizes.insert(segment.slot_bytes).second;
    if (!is_new_size) continue;
    TRY_ASSIGN(const auto leaves, folder_->index->oldest_leaves(segment.slot_bytes, 1));
    const uint32_t candidate = leaves.empty() ? id : leaves.front().slot.segment;
    if (!folder_->files->find(candidate)) continue;
    TRY_ASSIGN(const auto last_use, folder_->index->last_use_of_segment(candidate));
    if (!last_use || *last_use < before) return std::optional(candidate);
  }
  return std::optional<uint32_t>();
}

Result<void> DiskTier::drop_segment(uint32_t id) {
  const uint64_t slot_bytes = folder_->files->find(id)->slot_bytes;
  TRY(drop_rows(id));
  std::erase_if(free_slots_[slot_bytes], [&](SlotId slot) { return slot.segment == id; });
  TRY(folder_->files->remove(id));
  dropped_.push_back(id);
  n_bytes_ = folder_->files->n_bytes();
  return {};
}

Result<void> DiskTier::drop_rows(uint32_t segment) {
  TRY_ASSIGN(const auto rows, folder_->index->rows_of_segment(segment));
  for (const DiskIndex::Row& row : rows) TRY(drop_row(row));
  return {};
}

Result<void> DiskTier::drop_row(const DiskIndex::Row& row) {
  TRY(folder_->index->remove(row));
  --n_pages_;
  ++n_evictions_;
  return {};
}

Result<void> DiskTier::write(std::span<const Placed> placed) {
  std::vector<std::shared_ptr<const SegmentFiles::File>> files;
  for (const Placed& page : placed) {
    const auto slot = page.put->slot.first(page.slot_bytes);
    write_record_head(page.put->page, page.put->n_bytes, slot);
    const size_t end = kRecordHeadBytes + page.put->n_bytes;
    std::ranges::fill(slot.subspan(end), std::byte{0});
    TRY(page.segment.file->write(slot, page.slot.slot * page.slot_bytes));
    if (std::ranges::count(files, page.segment.file) == 0) files.push_back(page.segment.file);
  }
  for (const auto& file : files) TRY(file->sync());
  return {};
}

Result<void> DiskTier::insert(std::span<const Placed> placed) {
  TRY(check_folder());
  const uint64_t tick = tick_++;
  TRY(folder_->index->in_transaction([&]() REQUIRES(mutex_) -> Result<void> {
    for (const Placed& page : placed) {
      TRY(folder_->index->insert(page.put->page, page.slot, page.slot_bytes, page.put->n_bytes,
                                 tick));
    }
    return {};
  }));
  n_pages_ += placed.size();
  return {};
}

// A page of another size may have taken the place of the whole segment.
void DiskTier::give_back(std::span<const Placed> placed) {
  if (!folder_ || !folder_->files) return;
  for (const Placed& page : placed) {
    if (folder_->files->find(page.slot.segment)) free_slots_[page.slot_bytes].push_back(page.slot);
  }
}

}  // namespace kvik
