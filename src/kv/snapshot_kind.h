#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// Why a state was kept where it was.
enum class SnapshotKind : uint8_t {
  kGrid,    // a long text goes on
  kBorder,  // a message ends, and so may a prompt
  kEnd,     // an answer ends
  kBranch,  // others go on from there: two did, or somebody asked for it
};
inline constexpr size_t kSnapshotKinds = 4;

// Whether it ranks among others as new, or as if it had been found already.
enum class Regard : uint8_t { kNew, kFound };

}  // namespace kvik
