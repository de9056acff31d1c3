#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tier/segment_files.h"
#include "tier/tier.h"

namespace kvik {

// The record of a page as stored in a slot of a segment file: a head of kRecordHeadBytes in little
// endian, followed by the page's bytes.
//
//   magic 8 · version 4 · group 4 · root 32 · parent 32 · key 32 · n_tokens 4 · zero 4 ·
//   token ids 32 × 4 · n_bytes 8 · XXH3-128 of the bytes 16 · mark (SharingMark) 8 ·
//   XXH3-128 of all fields before 16 · seal 32 · zeros
//
// The mark is that of the time of writing; the index of a DiskTier has the current one. An index
// rebuilt from records is therefore the stricter one.
//
// The seal is HMAC-SHA-256 of all fields before it under a mark key, in tiers that other machines
// write: checksums detect damage, and the seal detects marks that were changed to open private
// pages to others. Without a mark key it is zero and ignored.
inline constexpr size_t kRecordHeadBytes = 512;

// Returns the size of a slot of a segment file for pages of this size.
constexpr size_t disk_slot_bytes(size_t n_page_bytes) {
  constexpr size_t kUnit = SegmentFiles::kAlignment;
  return (kRecordHeadBytes + n_page_bytes + kUnit - 1) / kUnit * kUnit;
}

// Writes the head of a record. The page's bytes must be in `slot` already.
void write_record_head(const TierPage& page, size_t n_bytes, std::span<std::byte> slot,
                       std::string_view mark_key = {});

// Contents of a record head. std::nullopt if it is not a head, damaged, or of another version. A
// mark with a wrong seal is read as SharingMark::kNoTenant.
struct RecordHead {
  TierPage page;
  uint64_t n_bytes = 0;
};
std::optional<RecordHead> read_record_head(std::span<const std::byte> head,
                                           std::string_view mark_key = {});

// Reads a whole record and checks the page's bytes as well.
std::optional<RecordHead> read_record(std::span<const std::byte> slot,
                                      std::string_view mark_key = {});

}  // namespace kvik
