#include "tier/prefix_file/import_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tensor/kv_type.h"
#include "tier/aligned_bytes.h"
#include "tier/page_record.h"

namespace kvik {
namespace {

constexpr uint64_t kBatchBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxBatchPages = 64;

std::span<std::byte> record_in(const AlignedBytes& slot, const Tier& tier,
                               const PrefixFileHeader& header) {
  CHECK(tier.head_bytes() >= kRecordHeadBytes);
  return slot.span().subspan(tier.head_bytes() - kRecordHeadBytes, header.record_bytes());
}

// Reads the file from its first page on.
Result<void> for_each_page(PrefixFileReader& file, std::span<std::byte> record,
                           const std::function<Result<void>(TierPage&)>& use) {
  file.rewind();
  while (true) {
    TRY_ASSIGN(std::optional<TierPage> page, file.next(record));
    if (!page) return {};
    TRY(use(*page));
  }
}

// Gives the pages of a file, in their order, the keys that they have under a salt.
class SaltedKeys {
 public:
  SaltedKeys(const PrefixFileHeader& header, std::string_view salt)
      : root_(root_key(header.identity.text(), salt)) {}

  void apply(TierPage& page) {
    const PageKey file_key = page.key;
    const auto parent = keys_.find(page.parent);
    page.parent = parent == keys_.end() ? root_ : parent->second;  // the reader checked the chain
    page.root = root_;
    page.key = child_key(page.parent, page.tokens);
    if (page.group < kSnapshotGroup && page.tokens.size() == kPageTokens)
      keys_.emplace(file_key, page.key);
  }

 private:
  const PageKey root_;
  std::unordered_map<PageKey, PageKey, PageKeyHash> keys_;  // by the key in the file
};

Result<void> put_all(PrefixFileReader& file, Tier& tier, std::span<const AlignedBytes> slots,
                     const ImportTarget& target) {
  const PrefixFileHeader& header = file.header();
  SaltedKeys keys(header, target.salt);
  file.rewind();
  std::vector<Tier::Put> batch;
  while (true) {
    const AlignedBytes& slot = slots[batch.size()];
    TRY_ASSIGN(std::optional<TierPage> page, file.next(record_in(slot, tier, header)));
    if (page) {
      keys.apply(*page);
      page->known = target.known;
      batch.push_back({std::move(*page), slot.span(), header.page_bytes});
    }
    if (batch.size() == slots.size() || (!page && !batch.empty())) {
      TRY(tier.put(batch));
      batch.clear();
    }
    if (!page) return {};
  }
}

}  // namespace

Result<void> import_prefix(PrefixFileReader& file, Tier& tier, const ImportTarget& target) {
  const PrefixFileHeader& header = file.header();
  const uint64_t slot_bytes = tier.slot_bytes(header.page_bytes);
  const uint64_t n_slots =
      std::clamp<uint64_t>(kBatchBytes / slot_bytes, 1, std::min(header.n_records, kMaxBatchPages));
  std::vector<AlignedBytes> slots;
  for (uint64_t i = 0; i < n_slots; ++i) slots.emplace_back(slot_bytes, tier.alignment());
  const auto record = record_in(slots.front(), tier, header);
  TRY(for_each_page(file, record, [](TierPage&) -> Result<void> { return {}; }));
  TRY(put_all(file, tier, slots, target));
  SaltedKeys keys(header, target.salt);
  uint64_t n_stored = 0;
  TRY(for_each_page(file, record, [&](TierPage& page) -> Result<void> {
    keys.apply(page);
    const Tier::Get got =
        tier.get(page, SharingMark::kAll, slots.front().span(), header.page_bytes);
    n_stored += got == Tier::Get::kFound ? 1 : 0;
    return {};
  }));
  if (n_stored == header.n_records) return {};
  return fail(ErrorCode::kExhausted,
              fmt::format("{} of {} pages could be stored: give the folder more room with "
                          "--disk-size, or free some on the device",
                          n_stored, header.n_records));
}

}  // namespace kvik
