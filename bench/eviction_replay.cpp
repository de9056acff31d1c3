#include "eviction_replay.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "prompt_caches.h"

namespace kvik {
namespace {

// A cache that evicts pages by rank, lowest first, and a page only after its children.
class RankedCache {
 public:
  RankedCache(uint32_t n_pages, const std::vector<int64_t>& parents)
      : n_free_(n_pages), parents_(parents), states_(parents.size()) {}

  bool holds(uint32_t page) const { return states_[page].is_cached; }

  // Protects a page of the current request from eviction.
  void protect(uint32_t page) {
    drop_candidate(page);
    states_[page].is_in_use = true;
  }
  void release(uint32_t page, int64_t rank) {
    State& state = states_[page];
    state.is_in_use = false;
    state.rank = rank;
    add_candidate(page);
  }
  // Returns false if all pages are in use.
  bool add(uint32_t page) {
    if (n_free_ == 0 && !evict()) return false;
    --n_free_;
    states_[page].is_cached = true;
    if (parents_[page] >= 0) ++states_[parents_[page]].n_children;
    return true;
  }

 private:
  struct State {
    bool is_cached = false, is_in_use = false;
    uint32_t n_children = 0;
    int64_t rank = 0;
  };

  bool is_candidate(uint32_t page) const {
    const State& state = states_[page];
    return state.is_cached && !state.is_in_use && state.n_children == 0;
  }
  void add_candidate(uint32_t page) {
    if (is_candidate(page)) candidates_.emplace(states_[page].rank, page);
  }
  void drop_candidate(uint32_t page) {
    if (is_candidate(page)) candidates_.erase({states_[page].rank, page});
  }
  bool evict() {
    if (candidates_.empty()) return false;
    const uint32_t page = candidates_.begin()->second;
    candidates_.erase(candidates_.begin());
    states_[page].is_cached = false;
    ++n_free_;
    if (parents_[page] < 0) return true;
    const auto above = static_cast<uint32_t>(parents_[page]);
    --states_[above].n_children;
    add_candidate(above);
    return true;
  }

  uint32_t n_free_;
  const std::vector<int64_t>& parents_;
  std::vector<State> states_;
  std::set<std::pair<int64_t, uint32_t>> candidates_;
};

}  // namespace

EvictionReplay::EvictionReplay(const std::vector<Conversation>& conversations) {
  for (const Conversation& conversation : conversations) {
    for (const ScriptedTurn& turn : conversation.script) {
      requests_.push_back({&turn, conversation.begin_s + turn.at_s, {}, 0});
    }
  }
  std::ranges::stable_sort(requests_, {}, &Request::at_s);
  std::unordered_map<uint64_t, uint32_t> numbers;  // by hash of all tokens to the end of the page
  for (uint32_t r = 0; r < requests_.size(); ++r) {
    Request& request = requests_[r];
    std::vector<TokenId> tokens = request.turn->prompt_tokens();
    request.n_prompt = static_cast<uint32_t>((tokens.size() - 1) / kPageTokens);
    for (uint32_t i = 0; i + 1 < request.turn->answer.n; ++i) {
      tokens.push_back(request.turn->answer.first + i);
    }
    uint64_t hash = 0;
    int64_t parent = -1;
    for (size_t i = 0; i < tokens.size(); ++i) {
      hash = (hash ^ static_cast<uint64_t>(tokens[i])) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
      if ((i + 1) % kPageTokens != 0 && i + 1 < tokens.size()) continue;
      const auto [it, is_new] = numbers.emplace(hash, n_pages());
      if (is_new) {
        parents_.push_back(parent);
        uses_.emplace_back();
      }
      parent = it->second;
      request.pages.push_back(it->second);
      uses_[it->second].push_back(r);
    }
  }
}

uint32_t EvictionReplay::n_longest() const {
  size_t n = 0;
  for (const Request& request : requests_) n = std::max(n, request.pages.size());
  return static_cast<uint32_t>(n);
}

EvictionResult EvictionReplay::run(uint32_t n_pages) const {
  EvictionResult result;
  for (const Request& request : requests_) result.n_prompt += request.turn->n_prompt();
  result.n_lru = run_model(n_pages, Policy::kLru);
  result.n_kvik = run_kvik(n_pages);
  result.n_belady = run_model(n_pages, Policy::kBelady);
  return result;
}

uint64_t EvictionReplay::run_model(uint32_t n_pages, Policy policy) const {
  RankedCache cache(n_pages, parents_);
  std::vector<size_t> n_used(parents_.size());
  uint64_t n_hit = 0;
  for (uint32_t r = 0; r < requests_.size(); ++r) {
    const auto& [turn, at_s, pages, n_prompt] = requests_[r];
    size_t n_held = 0;
    while (n_held < pages.size() && cache.holds(pages[n_held])) ++n_held;
    n_hit += std::min<size_t>(n_held, n_prompt);
    for (size_t i = 0; i < n_held; ++i) cache.protect(pages[i]);
    while (n_held < pages.size() && cache.add(pages[n_held])) cache.protect(pages[n_held++]);
    for (const uint32_t page : pages) ++n_used[page];
    for (size_t i = 0; i < n_held; ++i) {
      const std::vector<uint32_t>& uses = uses_[pages[i]];
      const int64_t next =
          n_used[pages[i]] < uses.size() ? int64_t{uses[n_used[pages[i]]]} : INT64_MAX;
      cache.release(pages[i], policy == Policy::kLru ? int64_t{r} : -next);
    }
  }
  return n_hit * kPageTokens;
}

uint64_t EvictionReplay::run_kvik(uint32_t n_pages) const {
  Pages cache(n_pages, KvLayout(64));
  uint64_t n_hit = 0;
  for (const Request& request : requests_) {
    const TokenRun& run = request.turn->answer;
    Tokens answer;
    for (uint32_t i = 0; i < run.n; ++i) answer.push_back(run.first + i);
    n_hit += cache.run(request.turn->prompt_tokens(), answer) / kPageTokens;
  }
  return n_hit * kPageTokens;
}

}  // namespace kvik
