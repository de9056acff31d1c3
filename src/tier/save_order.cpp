#include "tier/save_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>

namespace kvik {

std::vector<PageId> save_order(const std::vector<SavablePage>& pages) {
  // The pages of a node, which is a position of a prefix: one per layer group, and snapshots.
  struct Node {
    std::vector<const SavablePage*> pages;
    bool is_taken = false;
  };
  std::unordered_map<PageKey, Node, PageKeyHash> nodes;
  std::vector<const SavablePage*> by_use;
  for (const SavablePage& page : pages) {
    nodes[page.key].pages.push_back(&page);
    by_use.push_back(&page);
  }
  std::ranges::sort(by_use, std::ranges::greater(), [](const SavablePage* page) {
    return std::pair(page->last_used,
                     std::numeric_limits<uint32_t>::max() - static_cast<uint32_t>(page->id));
  });
  // From the most recently used page to the root, leaving out the nodes that a later prefix has
  // taken. The reverse of all that begins with the least recently used prefix, at its root.
  std::vector<PageId> order;
  for (const SavablePage* const page : by_use) {
    for (auto at = nodes.find(page->key); at != nodes.end() && !at->second.is_taken;) {
      Node& node = at->second;
      node.is_taken = true;
      for (auto it = node.pages.rbegin(); it != node.pages.rend(); ++it) order.push_back((*it)->id);
      at = nodes.find(node.pages.front()->parent);
    }
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace kvik
