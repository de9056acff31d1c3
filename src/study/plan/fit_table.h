#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/footprint.h"
#include "tensor/kv_type.h"

namespace kvik {

// The context and users that fit in memories of several sizes, for one pair of weight and KV types.
struct FitRow {
  struct Cell {
    uint64_t n_users = 0;      // concurrent users with FitTable::n_ctx tokens each
    uint64_t longest_ctx = 0;  // the longest context of a single user, in tokens
  };
  std::string weights;  // type of the matrices
  KvType kv_type = KvType::kInt8;
  UserFit users;            // users with FitTable::n_ctx tokens each
  std::vector<Cell> cells;  // one cell per memory size
};

struct FitTable {
  std::string model;
  uint64_t n_ctx = 0;
  std::vector<uint64_t> memory_bytes;
  std::vector<FitRow> rows;
};

// One type in which the weights of a model can be stored.
struct WeightVariant {
  std::string name;
  Footprint footprint;
};

// The memory sizes are powers of two, beginning with the smallest that holds the smallest variant.
FitTable make_fit_table(std::string model, const std::vector<WeightVariant>& variants,
                        uint64_t n_ctx, uint64_t adapter_bytes);

// The table as text with one row per pair of types.
std::string fit_text(const FitTable& table);

// The table as an SVG chart: tokens of context, and users, over memory.
std::string fit_svg(const FitTable& table);

}  // namespace kvik
