#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_layout.h"
#include "kv/snapshot_kind.h"

namespace kvik {

// A position in a prompt at which the state is kept.
struct SnapshotMark {
  uint32_t n_tokens = 0;  // number of tokens before the position
  SnapshotKind kind{};
};

// Decides where the state of a sequence is kept, so that later requests can resume there. A
// snapshot is as large as the K and V of about a thousand tokens, so it is kept only where a later
// request is likely to resume:
//   - where a prompt diverges from known tokens, and where the request asks for it: others will
//     diverge there, too;
//   - at the end of a message, and at the end of a prompt before its last token, which is always
//     computed;
//   - at the end of an answer;
//   - at 1, 2, 4, 8 … times the number of tokens whose K and V have the size of a snapshot, so that
//     a long text is not computed again from its beginning.
// Which kinds are used depends on the model's template and on the clients. A kind that is not used
// is kept only now and then, to notice a change. A snapshot is omitted if another one is so close
// before it that computing the rest takes hardly any time. tools/measure/snapshot_policies.py tests
// the policy with conversations, agents and documents. Engine thread only.
class SnapshotPolicy {
 public:
  SnapshotPolicy() = default;  // for models without a state: keeps nothing
  explicit SnapshotPolicy(const KvLayout& layout);

  bool is_on() const { return first_ > 0; }

  // The facts about a prompt at its admission.
  struct Prompt {
    uint32_t n_tokens = 0;
    uint32_t n_found = 0;  // number of tokens before the position where it resumes
    uint32_t n_known = 0;  // number of tokens whose K and V are cached
    std::span<const uint32_t> message_ends = {};  // ends of messages, in any order
    std::span<const uint32_t> wanted = {};        // positions requested by the client
  };
  // Returns the positions after n_found at which the state is to be kept, ascending. Counts them as
  // kept.
  std::vector<SnapshotMark> marks(const Prompt& prompt);

  // Returns true if the state at the end of an answer, after n_tokens tokens, is worth keeping.
  // n_kept is the number of tokens at the last snapshot.
  bool keeps_end(uint32_t n_tokens, uint32_t n_kept);
  // Returns true if the state within an answer is worth keeping, because n_tokens is on the grid.
  // Counts it as kept.
  bool keeps_within(uint32_t n_tokens);
  bool is_on_grid(uint32_t n_tokens) const;

  // Records that a prompt resumed from a snapshot of this kind.
  void note_used(SnapshotKind kind) { ++of(kind).n_found; }

  // Smallest number of shared tokens for which one prompt waits for another.
  static constexpr uint32_t kMinShared = 64;

 private:
  struct Counts {
    uint64_t n_wanted_kept = 0, n_kept = 0, n_found = 0;
  };
  Counts& of(SnapshotKind kind) { return counts_[static_cast<size_t>(kind)]; }
  bool pays(SnapshotKind kind);

  uint32_t first_ = 0;  // first position of the grid; 0: off
  std::array<Counts, kSnapshotKinds> counts_{};
};

}  // namespace kvik
