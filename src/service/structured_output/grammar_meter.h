#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "constrain/grammar_matcher.h"

namespace kvik {

// Counts the memory of all existing compiled grammars, by tenant. Any thread.
class GrammarMeter : public std::enable_shared_from_this<GrammarMeter> {
 public:
  // Returns a pointer to the grammar that counts `bytes` for the tenant until its last reference is
  // gone.
  std::shared_ptr<const constrain::CompiledGrammar> count(
      std::shared_ptr<const constrain::CompiledGrammar> grammar, size_t bytes,
      const std::string& tenant);

  size_t bytes() const;
  size_t bytes_of(const std::string& tenant) const;

  // Returns the counter of the bytes that matchers use.
  const std::shared_ptr<std::atomic<int64_t>>& matching() const { return matching_; }

 private:
  struct Counted;
  void give_back(const std::string& tenant, size_t bytes);

  mutable Mutex mutex_;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t> by_tenant_ GUARDED_BY(mutex_);
  // Shared with the matchers.
  const std::shared_ptr<std::atomic<int64_t>> matching_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace kvik
