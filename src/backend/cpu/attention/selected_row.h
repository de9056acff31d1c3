#pragma once

#include <cstdint>

#include "backend/ops/attention.h"

namespace kvik::cpu {

// A row that attends to selected tokens (SelectedTokens), and its lists.
struct SelectingRow {
  const KvRun* run;
  uint32_t row;  // of q and out
  uint32_t position;
  const uint32_t* lists;
};

// The part of the pages of SelectedPages or SelectedTables that such a row reads.
struct SelectedRow {
  uint32_t n_tokens = UINT32_MAX;  // see QueryRow
  const uint32_t* masks = nullptr;
  uint32_t kv_head = 0;  // that the row is computed for
};

}  // namespace kvik::cpu
