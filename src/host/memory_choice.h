#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "host/footprint.h"

namespace kvik {

// The memory of a machine, or of a device with memory of its own, in bytes.
struct MemoryState {
  uint64_t all_bytes = 0;
  uint64_t free_bytes = 0;
  bool is_device = false;  // only weights, pages and buffers of the backend are in it

  // Returns the bytes that automatic choices leave to other programs: a quarter of a machine's
  // memory, at most 8 GiB; of a device a sixteenth.
  uint64_t reserve_bytes() const;
  // Returns the bytes that automatic choices may use.
  uint64_t usable_bytes() const { return free_bytes - std::min(free_bytes, reserve_bytes()); }
};

// Returns the state of the memory in which the backend computes. If the system does not report it,
// all of it is 0.
MemoryState memory_state(Backend& backend);
// Returns the state of a machine on which nothing else runs.
MemoryState idle_machine(uint64_t n_bytes);

// The values of `--ctx` and `--kv-memory`, and the other needs of memory.
struct MemoryRequest {
  std::optional<uint64_t> n_ctx;     // absent: the largest that fits, up to the trained context
  std::optional<uint64_t> kv_bytes;  // absent: what kContexts contexts need, and kMinKvBytes
  uint64_t adapter_bytes = 0;        // budget of adapters
  uint64_t draft_bytes = 0;          // weights and buffers of a draft model
  uint64_t draft_page_bytes = 0;     // a page of the draft model in each of its layer groups

  static constexpr uint64_t kContexts = 2;
  static constexpr uint64_t kMinKvBytes = uint64_t{4} << 30;
};

// A context and a budget of the KV cache.
struct MemoryChoice {
  uint64_t n_ctx = 0;  // in tokens
  uint64_t kv_bytes = 0;
};

// Chooses the context and the KV budget of an engine with these options; `n_ctx_max` and
// `kv_budget_bytes` of the options are not used. The context comes first: it is the largest for
// which one sequence and everything else that the model needs fit into the usable memory, in steps
// of 1024 tokens. Then the cache gets what two such contexts need, and at least 4 GiB, as far as
// the memory goes. If not even a context of 4096 tokens fits, that is chosen: loading then reports
// what is missing. What the request contains is not changed; with a given budget the context is the
// trained one, which the engine cuts to what the budget holds.
MemoryChoice choose_memory(const Footprint& footprint, const EngineOptions& options,
                           const MemoryRequest& requested, const MemoryState& memory);

// Returns the choice as one sentence: what was chosen, of which memory, and which flags override
// it.
std::string describe(const MemoryChoice& choice, const MemoryRequest& requested,
                     const MemoryState& memory, uint64_t n_ctx_train);

}  // namespace kvik
