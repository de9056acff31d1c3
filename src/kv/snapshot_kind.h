#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// Reason why a snapshot was kept at its position.
enum class SnapshotKind : uint8_t {
  kGrid,    // at regular distances in a long text
  kBorder,  // end of a message, where a later prompt may end
  kEnd,     // end of an answer
  kBranch,  // several sequences continue from here, or the client asked for it
};
inline constexpr size_t kSnapshotKinds = 4;

// Rank of a snapshot for eviction: as new, or as if it had been hit before.
enum class EvictionRank : uint8_t { kNew, kFound };

}  // namespace kvik
