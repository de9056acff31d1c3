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

// Returns whether the decoder uses open pages: each row then attends to its own page in kOpenType.
// This is so if the KV type requires it and all layers have K and V. A model with recurrent states
// would have to keep an open page with each snapshot, which may lie inside a page.
bool uses_open_pages(const ModelConfig& config, KvType type);
// Returns whether heads of K are stored by channel (KvGeometry::keys_by_channel). Latent K never
// is.
inline bool keeps_keys_by_channel(const ModelConfig& config, KvType type) {
  return key_type(type) == KvType::kInt4 && uses_open_pages(config, type);
}
// Returns the bytes of one open page of a sequence in all groups; 0 if there are none.
uint64_t open_page_bytes(const ModelConfig& config, KvType type, const Backend& backend);

// Addresses of the open pages of a step's rows (KvRun::open). The first and the last page of a
// sequence's rows lie in the sequence's slot (KvLayout::open_slot_bytes), where the next step finds
// them. The pages between them, which this step fills and no later step reads, lie in an arena
// shared by all sequences. One thread.
class OpenPages {
 public:
  // For a model that uses open pages, and steps of n_rows_max tokens.
  OpenPages(const ModelConfig& config, Backend& backend, uint32_t n_rows_max);

  // Returns the bytes of the arena; 0 if there is none.
  static uint64_t arena_bytes(const ModelConfig& config, KvType type, const Backend& backend,
                              uint32_t n_rows_max);

  void begin_step();
  // Adds the pages of a sequence's new rows. n_rows is at least 1. Clears the pages whose first
  // token is among these rows, because masked rows must hold finite numbers. Call at most once per
  // step for each slot.
  void add(std::byte* slot, uint32_t first_position, uint32_t n_rows);
  // Adds the page of a row that was computed by an earlier step, to be read only.
  void add_computed(std::byte* slot, uint32_t position);
  // Returns the pages of the sequence that was added last, beginning with that of `position`.
  std::span<std::byte* const> pages(uint32_t group, uint32_t position) const;

 private:
  static uint32_t n_arena_pages(uint32_t n_rows_max);
  std::byte* page_in_slot(std::byte* slot, uint32_t page) const {
    return slot + open_page_offset(page, page_bytes_);
  }

  Memory& memory_;
  const uint32_t n_groups_;
  const uint64_t group_bytes_;  // bytes of one page of one group
  const uint64_t page_bytes_;   // bytes of one page of all groups
  Buffer arena_;
  uint32_t n_used_ = 0;             // number of arena pages in use
  std::vector<std::byte*> starts_;  // addresses of the pages of the sequence added last
  // by group: addresses of the pages of all sequences of the step
  std::vector<std::vector<std::byte*>> of_;
  uint32_t first_page_ = 0;  // first page of the sequence added last
  size_t begin_ = 0;         // index of its first page in of_[group]
};

}  // namespace kvik
