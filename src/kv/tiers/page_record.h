#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kv/tiers/tier.h"

namespace kvik {

// A page as it lies in a slot of a segment file: a head of kRecordHeadBytes in little endian, then
// the page's bytes.
//
//   magic 8 · version 4 · group 4 · root 32 · parent 32 · key 32 · n_tokens 4 · zero 4 ·
//   token ids 32 × 4 · n_bytes 8 · XXH3-128 of the bytes 16 · known by 8 · XXH3-128 of all before
//   16 · zeros
//
// Who knows the page is who did when it was written: the index knows who does now. Made again from
// records, it is the stricter one.
inline constexpr size_t kRecordHeadBytes = 512;

// Writes the head of a record whose bytes stand behind it in `slot`.
void write_record_head(const TierPage& page, size_t n_bytes, std::span<std::byte> slot);

// What the head of a record says. std::nullopt where it is no head, damaged or of another version.
struct RecordHead {
  TierPage page;
  uint64_t n_bytes = 0;
};
std::optional<RecordHead> read_record_head(std::span<const std::byte> head);

// The same for a whole record, whose bytes must be right too.
std::optional<RecordHead> read_record(std::span<const std::byte> slot);

}  // namespace kvik
