#include "kv/tiers/folder_tier.h"

#include <fmt/format.h>

#include <array>

#include "base/hash.h"
#include "kv/tiers/page_record.h"

namespace kvik {

FolderTier::FolderTier(FolderTierOptions options)
    : options_(std::move(options)),
      files_(fmt::format("{}/pages", options_.folder)),
      sweep_(options_.folder, options_.max_bytes) {}

size_t FolderTier::head_bytes() const { return kRecordHeadBytes; }
size_t FolderTier::slot_bytes(size_t n_page_bytes) const { return kRecordHeadBytes + n_page_bytes; }

std::string FolderTier::folder_of(const PageKey& parent, uint32_t group) const {
  const std::string hex = to_hex(parent.bytes);
  return fmt::format("{}/{}-{}", std::string_view(hex).substr(0, 2), hex, group);
}

std::string FolderTier::name_of(const TierPage& page) const {
  return fmt::format("{}/{}", folder_of(page.parent, page.group), name_of_tokens(page.tokens));
}

// Who knows the page of a file; std::nullopt where it is none.
std::optional<KnownBy> FolderTier::mark_of(const std::string& name) const {
  std::array<std::byte, kRecordHeadBytes> head;
  if (!files_.read_head(name, head)) return std::nullopt;
  const auto record = read_record_head(head);
  return record ? std::optional(record->page.known) : std::nullopt;
}

// The bytes are read only where the reader may find the page: how long it takes tells nothing.
Tier::Get FolderTier::get(TierPage& wanted, KnownBy reader, std::span<std::byte> slot,
                          size_t n_bytes) {
  const std::string name = name_of(wanted);
  if (reader != KnownBy::kAll) {
    if (const auto mark = mark_of(name); mark && !may_find(reader, *mark)) return Get::kAbsent;
  }
  const auto bytes = slot.first(slot_bytes(n_bytes));
  switch (files_.read(name, bytes)) {
    case SharedFolder::Read::kAbsent:
      return Get::kAbsent;
    case SharedFolder::Read::kFailed:
      return Get::kFailed;
    case SharedFolder::Read::kDone:
      if (const auto record = read_record(bytes);
          record && record->page == wanted && record->n_bytes == n_bytes) {
        wanted.known = record->page.known;
        return may_find(reader, wanted.known) ? Get::kFound : Get::kAbsent;
      }
      break;
    case SharedFolder::Read::kWrong:
      break;
  }
  files_.remove(name);  // so that a good one can take its place
  return Get::kDamaged;
}

std::vector<Tier::Child> FolderTier::children(const PageKey& parent, uint32_t group, KnownBy reader,
                                              size_t limit) {
  std::vector<Child> found;
  const std::string folder = folder_of(parent, group);
  for (const std::string& name : files_.list(folder, limit)) {
    auto tokens = tokens_of_name(name);
    if (!tokens) continue;
    if (reader != KnownBy::kAll) {
      const auto mark = mark_of(fmt::format("{}/{}", folder, name));
      if (!mark || !may_find(reader, *mark)) continue;
    }
    const PageKey key = child_key(parent, *tokens);
    found.push_back({key, std::move(*tokens)});
  }
  return found;
}

// Of a page that is there already it is only written who knows it now.
Result<void> FolderTier::put(std::span<Put> pages) {
  for (Put& put : pages) {
    const auto mark = mark_of(name_of(put.page));
    const KnownBy both = mark ? joined(*mark, put.page.known) : put.page.known;
    if (mark && both == *mark) continue;
    put.page.known = both;
    write_record_head(put.page, put.n_bytes, put.slot);
    const auto record = put.slot.first(slot_bytes(put.n_bytes));
    TRY(files_.write(folder_of(put.page.parent, put.page.group), name_of_tokens(put.page.tokens),
                     record));
    if (mark) continue;
    ++n_pages_;
    n_bytes_ += record.size();
  }
  return {};
}

// Whether the folder takes bytes.
Result<void> FolderTier::recover() {
  const std::array<std::byte, 1> probe{};
  static constexpr const char* kProbe = "probe";
  files_.remove(fmt::format("{}/{}", kProbe, kProbe));
  TRY(files_.write(kProbe, kProbe, probe));
  files_.remove(fmt::format("{}/{}", kProbe, kProbe));
  return {};
}

Result<void> FolderTier::tidy_up() {
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
