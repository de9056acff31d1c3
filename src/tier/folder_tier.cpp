#include "tier/folder_tier.h"

#include <fmt/format.h>

#include <array>

#include "base/hash.h"
#include "tier/page_record.h"

namespace kvik {

FolderTier::FolderTier(FolderTierOptions options)
    : options_(std::move(options)),
      files_(fmt::format("{}/kv", options_.folder), options_.mode),
      names_(files_),
      sweep_(options_.folder, options_.max_bytes,
             std::filesystem::path(options_.folder) / "pages/") {}

size_t FolderTier::head_bytes() const { return kRecordHeadBytes; }
size_t FolderTier::slot_bytes(size_t n_page_bytes) const { return kRecordHeadBytes + n_page_bytes; }

std::optional<std::string> FolderTier::path_of(const TierPage& page) {
  const auto folder = names_.folder_of(page.parent, page.group);
  const auto file = names_.file_of(page.key, page.group);
  if (!folder || !file) return std::nullopt;
  return fmt::format("{}/{}", *folder, *file);
}

// Reads the record head of a file; std::nullopt if it has none.
std::optional<RecordHead> FolderTier::head_of(const std::string& path) const {
  std::array<std::byte, kRecordHeadBytes> head;
  if (!files_.read_head(path, head)) return std::nullopt;
  return read_record_head(head, options_.mark_key);
}

// The contents are read only if the reader may hit the page, so that the time taken reveals
// nothing.
Tier::Get FolderTier::get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                          size_t n_bytes) {
  const auto path = path_of(wanted);
  if (!path) return Get::kAbsent;
  if (reader != SharingMark::kAll) {
    if (const auto head = head_of(*path); head && !may_hit(reader, head->page.known))
      return Get::kAbsent;
  }
  const auto bytes = slot.first(slot_bytes(n_bytes));
  switch (files_.read(*path, bytes)) {
    case SharedFolder::Read::kAbsent:
      return Get::kAbsent;
    case SharedFolder::Read::kFailed:
      return Get::kFailed;
    case SharedFolder::Read::kDone:
      if (const auto record = read_record(bytes, options_.mark_key);
          record && record->page == wanted && record->n_bytes == n_bytes) {
        wanted.known = record->page.known;
        return may_hit(reader, wanted.known) ? Get::kFound : Get::kAbsent;
      }
      break;
    case SharedFolder::Read::kWrong:
      break;
  }
  files_.remove(*path);  // so that an intact page can be stored again
  return Get::kDamaged;
}

std::vector<Tier::Child> FolderTier::children(const PageKey& parent, uint32_t group,
                                              SharingMark reader, size_t limit) {
  std::vector<Child> found;
  const auto folder = names_.folder_of(parent, group);
  if (!folder) return found;
  for (const std::string& name : files_.list(*folder, limit)) {
    auto head = head_of(fmt::format("{}/{}", *folder, name));
    if (!head || head->page.parent != parent || head->page.group != group) continue;
    if (!may_hit(reader, head->page.known)) continue;
    const PageKey key = child_key(parent, head->page.tokens);
    found.push_back({key, std::move(head->page.tokens)});
  }
  return found;
}

Result<void> FolderTier::put(std::span<Put> pages) {
  TRY(names_.make());
  for (Put& put : pages) TRY(put_one(put));
  return {};
}

// A page that is stored already is written again only if its mark changes.
Result<void> FolderTier::put_one(Put& put) {
  const auto folder = names_.folder_of(put.page.parent, put.page.group);
  const auto file = names_.file_of(put.page.key, put.page.group);
  if (!folder || !file) return fail(ErrorCode::kIo, "the folder was emptied meanwhile");
  const auto head = head_of(fmt::format("{}/{}", *folder, *file));
  const SharingMark both = head ? joined(head->page.known, put.page.known) : put.page.known;
  if (head && both == head->page.known) return {};
  put.page.known = both;
  write_record_head(put.page, put.n_bytes, put.slot, options_.mark_key);
  const auto record = put.slot.first(slot_bytes(put.n_bytes));
  TRY(files_.write(*folder, *file, record));
  if (head) return {};
  ++n_pages_;
  n_bytes_ += record.size();
  return {};
}

// Checks whether the folder accepts writes.
Result<void> FolderTier::recover() {
  names_.forget();
  const std::array<std::byte, 1> probe{};
  static constexpr const char* kProbe = "probe";
  files_.remove(fmt::format("{}/{}", kProbe, kProbe));
  TRY(files_.write(kProbe, kProbe, probe));
  files_.remove(fmt::format("{}/{}", kProbe, kProbe));
  return {};
}

Result<void> FolderTier::tidy_up() {
  constexpr std::chrono::seconds kReadNamesEvery{10};
  if (const TimePoint now = std::chrono::steady_clock::now(); now >= names_due_) {
    names_due_ = now + kReadNamesEvery;
    names_.forget();
  }
  const auto counted = sweep_.work();
  if (!counted) return {};
  n_pages_ = counted->n_files;
  n_bytes_ = counted->n_bytes;
  n_evictions_ += counted->n_removed;
  return {};
}

TierSize FolderTier::size() const {
  return {.n_pages = n_pages_, .n_bytes = n_bytes_, .n_evictions = n_evictions_};
}

}  // namespace kvik
