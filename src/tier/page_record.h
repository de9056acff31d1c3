#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tier/tier.h"

namespace kvik {

// A page as it lies in a slot of a segment file: a head of kRecordHeadBytes in little endian, then
// the page's bytes.
//
//   magic 8 · version 4 · group 4 · root 32 · parent 32 · key 32 · n_tokens 4 · zero 4 ·
//   token ids 32 × 4 · n_bytes 8 · XXH3-128 of the bytes 16 · known by 8 · XXH3-128 of all before
//   16 · seal 32 · zeros
// The mark is that of the time of writing; the index of a disk has the current one. An index that
// is rebuilt from records is the stricter one.
//
// The seal is HMAC-SHA-256 of all before it under a mark key, in tiers that other machines write:
// the checksums find damage, and the seal finds a mark that was changed to open a private page to
// others. Without a mark key it is zero and not looked at.
inline constexpr size_t kRecordHeadBytes = 512;

// Writes the head of a record whose bytes follow it in `slot`.
void write_record_head(const TierPage& page, size_t n_bytes, std::span<std::byte> slot,
                       std::string_view mark_key = {});

// The contents of a record's head. std::nullopt where it is no head, damaged or of another version.
// The mark of a page whose seal is wrong is read as KnownBy::kNobody.
struct RecordHead {
  TierPage page;
  uint64_t n_bytes = 0;
};
std::optional<RecordHead> read_record_head(std::span<const std::byte> head,
                                           std::string_view mark_key = {});

// The same for a whole record, whose bytes must be right too.
std::optional<RecordHead> read_record(std::span<const std::byte> slot,
                                      std::string_view mark_key = {});

}  // namespace kvik
