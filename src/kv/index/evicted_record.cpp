#include "kv/index/evicted_record.h"

#include <algorithm>

#include "kv/index/prefix_node.h"

namespace kvik {

void EvictedRecord::add(const PageKey& parent, Page page) {
  if (capacity_ == 0) return;
  if (ring_.size() < capacity_) {
    ring_.push_back(by_parent_.emplace(parent, std::move(page)));
    return;
  }
  by_parent_.erase(ring_[next_]);
  ring_[next_] = by_parent_.emplace(parent, std::move(page));
  next_ = (next_ + 1) % capacity_;
}

bool EvictedRecord::knew(const PageKey& parent, SharingMark reader, std::span<const TokenId> tokens,
                         size_t n_tokens) const {
  const auto [begin, end] = by_parent_.equal_range(parent);
  return std::any_of(begin, end, [&](const auto& entry) {
    return may_hit(reader, entry.second.known) &&
           common_prefix(entry.second.tokens, tokens) >= n_tokens;
  });
}

}  // namespace kvik
