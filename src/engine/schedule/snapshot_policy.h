#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_layout.h"
#include "kv/snapshot_kind.h"

namespace kvik {

// A place in a prompt whose state is kept.
struct SnapshotMark {
  uint32_t n_tokens = 0;  // behind so many
  SnapshotKind kind{};
};

// Where the state of a sequence is kept for whoever goes on from there. A snapshot is as large as
// the K and V of some thousand tokens, so there is one where somebody is likely to go on:
//   - where a prompt leaves what is known already, and where a request says so: others will leave
//     it there too,
//   - where a message ends, or a prompt, before its last token, which is always computed,
//   - at the end of an answer,
//   - at 1, 2, 4, 8 … times as many tokens as have the bytes of a snapshot, so that a long text is
//     not computed again from its beginning.
// Which of them are gone on from depends on the model's template and on its clients; a kind that is
// not is kept now and then only, to see whether that is still so. What lies so close behind another
// that computing it again is nothing is left out. tools/measure/snapshot_policies.py tries it on
// conversations, agents and documents. Engine thread only.
class SnapshotPolicy {
 public:
  SnapshotPolicy() = default;  // of models without a state: keeps nothing
  explicit SnapshotPolicy(const KvLayout& layout);

  bool is_on() const { return first_ > 0; }

  // What is known of a prompt when it begins.
  struct Prompt {
    uint32_t n_tokens = 0;
    uint32_t n_found = 0;                    // it goes on from here,
    uint32_t n_known = 0;                    // though so many have K and V
    std::span<const uint32_t> borders = {};  // ends of messages, in any order,
    std::span<const uint32_t> wanted = {};   // and what the request wants kept
  };
  // Behind n_found, ascending; counts as having kept them.
  std::vector<SnapshotMark> marks(const Prompt& prompt);

  // Whether a state that was last kept behind n_kept tokens is worth keeping behind n_tokens, where
  // an answer ends.
  bool keeps_end(uint32_t n_tokens, uint32_t n_kept);
  // Whether it is within an answer, on the grid; counts as having kept it.
  bool keeps_within(uint32_t n_tokens);
  bool is_on_grid(uint32_t n_tokens) const;

  // A prompt went on from one of that kind.
  void note_found(SnapshotKind kind) { ++of(kind).n_found; }

  // Tokens of a branch that are computed once for two.
  static constexpr uint32_t kLeastShared = 64;

 private:
  struct Counts {
    uint64_t n_wished = 0, n_kept = 0, n_found = 0;
  };
  Counts& of(SnapshotKind kind) { return counts_[static_cast<size_t>(kind)]; }
  bool pays(SnapshotKind kind);

  uint32_t first_ = 0;  // of the grid
  std::array<Counts, kSnapshotKinds> counts_{};
};

}  // namespace kvik
