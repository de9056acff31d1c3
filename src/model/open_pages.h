#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kv/kv_view.h"
#include "model/model.h"

namespace kvik {

// Returns whether each row attends to its own page in kOpenType: where the type wants it and all
// layers have K and V. A model with recurrent states would have to keep an open page with each
// snapshot, which may lie inside a page.
bool uses_open_pages(const ModelConfig& config, KvType type);
// Returns whether heads of K are kept by channel (KvGeometry); latent K never is.
inline bool keeps_keys_by_channel(const ModelConfig& config, KvType type) {
  return key_type(type) == KvType::kInt4 && uses_open_pages(config, type);
}
// Returns the bytes of one open page of a sequence in all groups; 0 where there are none.
uint64_t open_page_bytes(const ModelConfig& config, KvType type, const Backend& backend);

// The addresses of the open pages of a step's rows (KvRun::open). The first and the last page of a
// sequence's rows lie in its slot (KvLayout::open_slot_bytes), where the next step finds them;
// those between, which the step fills and no later one reads, in an arena for all sequences. One
// thread.
class OpenPages {
 public:
  // For a model that uses them, and steps of n_rows_max tokens.
  OpenPages(const ModelConfig& config, Backend& backend, uint32_t n_rows_max);

  // Returns the bytes of the arena, 0 where there are none.
  static uint64_t arena_bytes(const ModelConfig& config, KvType type, const Backend& backend,
                              uint32_t n_rows_max);

  void begin_step();
  // Lists the pages of a sequence's new rows, n_rows at least one, and clears those that begin with
  // one of them: rows that are masked must hold finite numbers. At most once a step for each slot.
  void add(std::byte* slot, uint32_t first_position, uint32_t n_rows);
  // Returns the pages of the sequence that was added last, from that of `position` on.
  std::span<std::byte* const> pages(uint32_t group, uint32_t position) const;

 private:
  static uint32_t n_arena_pages(uint32_t n_rows_max);
  std::byte* page_in_slot(std::byte* slot, uint32_t page) const {
    return slot + open_page_offset(page, page_bytes_);
  }

  Memory& memory_;
  const uint32_t n_groups_;
  const uint64_t group_bytes_;  // of one page of one group
  const uint64_t page_bytes_;   // of one page of all groups
  Buffer arena_;
  uint32_t n_used_ = 0;                      // pages of the arena
  std::vector<std::byte*> starts_;           // of the pages of the sequence added last
  std::vector<std::vector<std::byte*>> of_;  // of each group: of all sequences of the step
  uint32_t first_page_ = 0;                  // of the sequence added last
  size_t begin_ = 0;                         // of its pages in of_
};

}  // namespace kvik
