#include "host_run/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvik::host_run {

// The first access of a block finds nothing written.
void SharedLog::begin_access(uint32_t first, uint32_t n) {
  if (block_ != block_serial()) {
    block_ = block_serial();
    std::ranges::fill(elements_, Element{});
    use_shared(static_cast<uint32_t>(elements_.size()) * element_bytes_);
  }
  if (first > elements_.size() || n > elements_.size() - first) {
    stop(fmt::format("thread {} takes {} elements of shared memory from number {} of {} on",
                     current->number, n, first, elements_.size()));
  }
  if (first % n != 0) {
    stop(
        fmt::format("thread {} takes {} elements of shared memory at once from number {} on, "
                    "which is not aligned",
                    current->number, n, first));
  }
}

void SharedLog::check_order(const Use& earlier, uint32_t element, const char* does,
                            bool is_of_several) const {
  if (earlier.thread == kNoThread || earlier.barriers != block_barriers()) return;
  if (earlier.thread == current->number && !is_of_several) return;
  const bool is_of_warp = earlier.thread / kWarpLanes == current->warp() && !is_of_several;
  if (is_of_warp && earlier.warp_syncs < current->n_warp_syncs) return;
  stop(
      fmt::format("thread {} {} element {} of shared memory that thread {} used since the last "
                  "barrier",
                  current->number, does, element, earlier.thread));
}

void SharedLog::read(uint32_t first, uint32_t n) {
  begin_access(first, n);
  const Use now = {current->number, block_barriers(), current->n_warp_syncs};
  for (uint32_t i = first; i < first + n; ++i) {
    Element& element = elements_[i];
    if (element.writer.thread == kNoThread) {
      stop(fmt::format("thread {} reads element {} of shared memory that no thread wrote",
                       current->number, i));
    }
    check_order(element.writer, i, "reads", false);
    Use& last = element.reader;
    if (last.thread != now.thread && last.thread != kNoThread && last.barriers == now.barriers) {
      Use& other = element.other_reader;
      if (other.barriers != now.barriers || other.thread == kNoThread) {
        other = last;
        element.are_others_of_several_warps = false;
      } else {
        element.are_others_of_several_warps |=
            other.thread / kWarpLanes != last.thread / kWarpLanes;
        if (last.warp_syncs >= other.warp_syncs) other = last;
      }
    }
    last = now;
  }
}

void SharedLog::write(uint32_t first, uint32_t n) {
  begin_access(first, n);
  const Use now = {current->number, block_barriers(), current->n_warp_syncs};
  for (uint32_t i = first; i < first + n; ++i) {
    Element& element = elements_[i];
    check_order(element.writer, i, "writes", false);
    check_order(element.reader, i, "writes", false);
    check_order(element.other_reader, i, "writes", element.are_others_of_several_warps);
    element.writer = now;
  }
}

}  // namespace kvik::host_run
