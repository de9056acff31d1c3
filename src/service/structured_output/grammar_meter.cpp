#include "service/structured_output/grammar_meter.h"

#include <utility>

namespace kvik {

struct GrammarMeter::Counted {
  std::shared_ptr<const constrain::CompiledGrammar> grammar;
  std::shared_ptr<GrammarMeter> meter;
  std::string tenant;
  size_t bytes;

  ~Counted() { meter->give_back(tenant, bytes); }
};

std::shared_ptr<const constrain::CompiledGrammar> GrammarMeter::count(
    std::shared_ptr<const constrain::CompiledGrammar> grammar, size_t bytes,
    const std::string& tenant) {
  const constrain::CompiledGrammar* const pointer = grammar.get();
  {
    const MutexLock lock(mutex_);
    by_tenant_[tenant] += bytes;
    bytes_ += bytes;
  }
  auto counted = std::make_shared<Counted>(std::move(grammar), shared_from_this(), tenant, bytes);
  return {std::move(counted), pointer};
}

void GrammarMeter::give_back(const std::string& tenant, size_t bytes) {
  const MutexLock lock(mutex_);
  bytes_ -= bytes;
  const auto found = by_tenant_.find(tenant);
  found->second -= bytes;
  if (found->second == 0) by_tenant_.erase(found);
}

size_t GrammarMeter::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

size_t GrammarMeter::bytes_of(const std::string& tenant) const {
  const MutexLock lock(mutex_);
  const auto found = by_tenant_.find(tenant);
  return found == by_tenant_.end() ? 0 : found->second;
}

}  // namespace kvik
