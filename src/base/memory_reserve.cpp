#include "base/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace kvik {
namespace {

std::atomic<size_t> wanted_bytes{0};
std::atomic<void*> held{nullptr};

// Called by operator new where malloc has nothing to give; it tries again when this returns, and
// fails where no handler is set. In this order: restore() of another thread in
// between does nothing, and its next call sets the reserve aside.
void let_go() {
  std::set_new_handler(nullptr);
  std::free(held.exchange(nullptr));
}

}  // namespace

void MemoryReserve::keep(size_t n_bytes) {
  size_t before = wanted_bytes.load();
  while (before < n_bytes && !wanted_bytes.compare_exchange_weak(before, n_bytes)) continue;
  static_cast<void>(restore());
}

bool MemoryReserve::restore() {
  const size_t n_bytes = wanted_bytes.load();
  if (n_bytes == 0 || held.load()) return true;
  void* const memory = std::malloc(n_bytes);
  if (!memory) return false;
  void* expected = nullptr;
  if (!held.compare_exchange_strong(expected, memory)) std::free(memory);
  std::set_new_handler(let_go);
  return true;
}

}  // namespace kvik
