#pragma once

#include "catalogue/family.h"

namespace kvik::families {

// Keys of config.json for an indexer.
inline constexpr FolderValue kIndexerValues[] = {
    {"index_n_heads", "attention.indexer.head_count"},
    {"index_head_dim", "attention.indexer.key_length"},
    {"index_topk", "attention.indexer.top_k"},
};

}  // namespace kvik::families
