#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "kv/tier_page.h"
#include "tier/tier_counters.h"

namespace kvik {

// Storage in which pages outlive the memory that they were computed in: a disk or another machine.
// Handles keys and bytes, and knows neither models nor sequences nor policies. Any thread, several
// at once. Calls may take as long as the device does, so the engine thread makes none of them.
class Tier {
 public:
  virtual ~Tier() = default;

  enum class Get { kFound, kAbsent, kDamaged, kFailed };
  // Reads the wanted page of n_bytes into a slot (see head_bytes()) and sets its mark in `wanted`.
  // kAbsent: not stored, or the reader may not hit it (the device is then not accessed). kDamaged:
  // the record under its key and group fails a check or is another page. kFailed: the device
  // failed.
  virtual Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                  size_t n_bytes) = 0;

  struct Child {
    PageKey key;
    std::vector<TokenId> tokens;
  };
  // Returns stored children of `parent` that the reader may hit, at most `limit`.
  virtual std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                                      size_t limit) = 0;

  struct Put {
    TierPage page;
    std::span<std::byte> slot;  // see head_bytes()
    size_t n_bytes = 0;         // of the page
  };
  // Stores pages. When this returns, they can be read and survive the end of the process. The marks
  // of pages that are stored already are updated. On an error, any number of them may have been
  // stored.
  virtual Result<void> put(std::span<Put> pages) = 0;

  // A slot is memory for the transfer of a page: slot_bytes() long, a multiple of alignment(), with
  // head_bytes() for the tier's record head before the page's bytes, so that nothing is copied
  // again.
  virtual size_t head_bytes() const = 0;
  virtual size_t alignment() const = 0;
  virtual size_t slot_bytes(size_t n_page_bytes) const = 0;

  // Called after an error: tries to make the tier usable again.
  virtual Result<void> recover() = 0;

  // Does deferred work, such as recording uses and sizes. Called now and then when there is nothing
  // else to do.
  virtual Result<void> tidy_up() = 0;

  virtual TierSize size() const = 0;
};

// A tier and its kind. A list contains at most one tier of each kind, in the order of TierKind.
struct TierPlace {
  // When pages are stored: as soon as they are sealed, or when the engine ends. Storing them at the
  // end releases their memory one after the other, so that a tier in memory needs no more of it.
  enum class Save : uint8_t { kWhenSealed, kAtEnd };

  TierKind kind = TierKind::kDisk;
  Tier* tier = nullptr;  // borrowed
  Save save = Save::kWhenSealed;
};

// Time limits for storing pending pages when the engine ends.
inline constexpr std::chrono::seconds kFlushTime{10};
inline constexpr std::chrono::seconds kSaveAllTime{60};  // with a tier that stores all pages then

}  // namespace kvik
