#pragma once

#include <cstdint>
#include <vector>

#include "engine/simulator.h"

namespace kvik {

// Prompt tokens of a trace that are hit, by eviction policy, if its requests run one after the
// other in the recorded order. Hits are counted in whole pages.
struct EvictionResult {
  uint64_t n_prompt = 0;
  uint64_t n_lru = 0;     // least recently used first
  uint64_t n_kvik = 0;    // the real cache
  uint64_t n_belady = 0;  // the page used furthest in the future first: an upper bound (Belady)
};

// A trace's pages and their requests, prepared for replays with different amounts of memory.
class EvictionReplay {
 public:
  explicit EvictionReplay(const std::vector<Conversation>& conversations);

  // Number of pages that hold the whole trace.
  uint32_t n_pages() const { return static_cast<uint32_t>(parents_.size()); }
  size_t n_requests() const { return requests_.size(); }
  // Number of pages of the longest request.
  uint32_t n_longest() const;
  EvictionResult run(uint32_t n_pages) const;

 private:
  struct Request {
    const ScriptedTurn* turn = nullptr;
    double at_s = 0;
    std::vector<uint32_t> pages;  // pages of prompt and answer; the last one may be partly filled
    uint32_t n_prompt = 0;        // pages of the prompt that a hit may cover
  };
  enum class Policy { kLru, kBelady };

  uint64_t run_model(uint32_t n_pages, Policy policy) const;
  uint64_t run_kvik(uint32_t n_pages) const;

  std::vector<Request> requests_;            // in order of arrival
  std::vector<int64_t> parents_;             // by page; -1: none
  std::vector<std::vector<uint32_t>> uses_;  // by page, the requests that use it
};

}  // namespace kvik
