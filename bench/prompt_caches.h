#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

namespace kvik {

using Tokens = std::vector<TokenId>;

// Finds the cached prefix of a prompt and caches the prompt with its answer.
class Cache {
 public:
  virtual ~Cache() = default;
  // Returns the number of cached tokens of the prompt.
  virtual uint32_t run(const Tokens& prompt, const Tokens& answer) = 0;
};

// The real pool, index and tables over pages without contents.
class Pages final : public Cache {
 public:
  Pages(uint64_t n_pages, KvLayout layout)
      : cache_(memory_, n_pages * layout.page_bytes, layout, clock_) {}

  uint32_t n_cached() const { return cache_.counts().cached; }

  uint32_t run(const Tokens& prompt, const Tokens& answer) override {
    PageTable table = cache_.make_table();
    table.owner.n_prompt = prompt.size();
    Tokens all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    const auto findable = std::span(prompt).first(prompt.size() - 1);
    const auto found = open_prefix(cache_, table, {root_, findable}, prompt.size());
    if (!found) return 0;
    // The last token of an answer has no K and V.
    auto n_cached = *found;
    while (n_cached + 1 < all.size()) {
      if (!cache_.grow(table, all.size() - 1)) break;
      // The prompt advances in chunks, then the answer in steps that fill at most one page.
      const uint64_t n_step = n_cached < prompt.size()
                                  ? std::min<uint64_t>(512, prompt.size() - n_cached)
                                  : kPageTokens;
      n_cached += cache_.make_room(
          table, n_cached,
          static_cast<uint32_t>(std::min<uint64_t>(n_step, all.size() - 1 - n_cached)));
      cache_.seal(table, std::span(all).first(n_cached));
      cache_.slide(table, n_cached);
    }
    cache_.close(table, std::span(all).first(n_cached));
    return *found;
  }

 private:
  PlainMemory memory_;
  SteadyClock clock_;
  const PageKey root_ = root_key("trace", "");
  KvCache cache_;
};

}  // namespace kvik
