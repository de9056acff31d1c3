#include "kv/index/pin_table.h"

namespace kvik {

size_t PinTable::share() const {
  return n_pages_ / std::min<size_t>(n_tenants_, tenants_.size() + 1);
}

void PinTable::pin(PageId page, uint32_t depth, uint64_t tenant, TimePoint until) {
  const auto [it, is_new] = pins_.try_emplace({page, tenant}, Pinned{depth, until});
  Pinned& pinned = it->second;
  if (!is_new) {
    if (pinned.until >= until) return;
    by_end_.erase({pinned.until, page, tenant});
    by_end_.emplace(until, page, tenant);
    pinned.until = until;
    return;
  }
  by_end_.emplace(until, page, tenant);
  const auto [owner, is_newcomer] = tenants_.try_emplace(tenant);
  owner->second.counting.emplace(depth, page);
  changes_.push_back({page, 1});
  is_newcomer ? settle_all() : settle(owner->second);
}

void PinTable::forget(PageId page) {
  for (auto it = pins_.lower_bound({page, 0}); it != pins_.end() && it->first.first == page;
       it = pins_.lower_bound({page, 0})) {
    end(page, it->first.second);
  }
}

void PinTable::expire(TimePoint now) {
  while (!by_end_.empty() && std::get<TimePoint>(*by_end_.begin()) <= now) {
    const auto [until, page, tenant] = *by_end_.begin();
    end(page, tenant);
  }
}

void PinTable::end(PageId page, uint64_t tenant) {
  const auto it = pins_.find({page, tenant});
  const auto owner = tenants_.find(tenant);
  const std::pair place(it->second.depth, page);
  by_end_.erase({it->second.until, page, tenant});
  pins_.erase(it);
  if (owner->second.counting.erase(place) > 0) {
    changes_.push_back({page, -1});
  } else {
    owner->second.beyond.erase(place);
  }
  if (!owner->second.counting.empty() || !owner->second.beyond.empty()) {
    return settle(owner->second);
  }
  tenants_.erase(owner);
  settle_all();
}

void PinTable::settle(Tenant& tenant) {
  while (tenant.counting.size() > share()) {
    auto last = tenant.counting.extract(std::prev(tenant.counting.end()));
    changes_.push_back({last.value().second, -1});
    tenant.beyond.insert(std::move(last));
  }
  while (tenant.counting.size() < share() && !tenant.beyond.empty()) {
    auto first = tenant.beyond.extract(tenant.beyond.begin());
    changes_.push_back({first.value().second, 1});
    tenant.counting.insert(std::move(first));
  }
}

void PinTable::settle_all() {
  for (auto& [name, tenant] : tenants_) settle(tenant);
}

}  // namespace kvik
