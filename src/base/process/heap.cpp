#include "base/process/heap.h"

#include <malloc.h>

namespace kvik::heap {

namespace {

constexpr int kMaxKept = 1 << 20;

}  // namespace

void keep_little() {
  mallopt(M_MMAP_THRESHOLD, kMaxKept);
  mallopt(M_TRIM_THRESHOLD, kMaxKept);
}

void release() { malloc_trim(0); }

}  // namespace kvik::heap
