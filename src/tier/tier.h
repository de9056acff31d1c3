#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "kv/tier_page.h"
#include "tier/tier_counters.h"

namespace kvik {

// Where pages outlive the memory that they were made in: a disk, another machine. Knows keys and
// bytes, and neither models nor sequences nor policies. Any thread, several at once; calls may
// take as long as the device does, so the engine thread makes none of them.
class Tier {
 public:
  virtual ~Tier() = default;

  enum class Get { kFound, kAbsent, kDamaged, kFailed };
  // Reads the page that is wanted, of n_bytes, into a slot (see head_bytes()), and notes in
  // `wanted` who knows it. kAbsent too where the reader may not find it: the device is not asked.
  // kDamaged: what is stored under its key and group fails a check or is another page. kFailed: the
  // device.
  virtual Get get(TierPage& wanted, KnownBy reader, std::span<std::byte> slot, size_t n_bytes) = 0;

  struct Child {
    PageKey key;
    std::vector<TokenId> tokens;
  };
  // Stored pages that stand right behind `parent` and that the reader may find, at most `limit` of
  // them.
  virtual std::vector<Child> children(const PageKey& parent, uint32_t group, KnownBy reader,
                                      size_t limit) = 0;

  struct Put {
    TierPage page;
    std::span<std::byte> slot;  // see head_bytes()
    size_t n_bytes = 0;         // of the page
  };
  // Stores pages; when this returns they are found and survive the end of the process. Of pages
  // that are there already it is noted who knows them now. On an error some of them are stored, or
  // none.
  virtual Result<void> put(std::span<Put> pages) = 0;

  // A slot is memory for a page on its way: slot_bytes() long, at a multiple of alignment(), with
  // head_bytes() for the tier in front of the page's own, so that nothing is copied once more.
  virtual size_t head_bytes() const = 0;
  virtual size_t alignment() const = 0;
  virtual size_t slot_bytes(size_t n_page_bytes) const = 0;

  // After an error: tries to make the tier whole again.
  virtual Result<void> recover() = 0;

  // What may wait: notes of use, sizes. Called now and then where nothing else is to do.
  virtual Result<void> tidy_up() = 0;

  virtual TierSize size() const = 0;
};

// A tier and what it is. A list of them holds one of each kind at most, the nearest first.
struct TierPlace {
  TierKind kind = TierKind::kDisk;
  Tier* tier = nullptr;  // borrowed
};

}  // namespace kvik
