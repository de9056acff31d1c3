#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/footprint.h"
#include "tensor/kv_type.h"

namespace kvik {

// The context and the users that fit in memories of several sizes, for one pair of weight and KV
// types.
struct FitRow {
  struct Cell {
    uint64_t n_users = 0;      // number of concurrent users with FitTable::n_ctx tokens each
    uint64_t longest_ctx = 0;  // longest context of a single user, in tokens
  };
  std::string weights;  // type of the matrices
  KvType kv_type = KvType::kInt8;
  UserFit users;            // memory of users with FitTable::n_ctx tokens each
  std::vector<Cell> cells;  // one cell for each memory size
};

struct FitTable {
  std::string model;
  uint64_t n_ctx = 0;
  std::vector<uint64_t> memory_bytes;
  std::vector<FitRow> rows;
};

// A type in which the weights of a model can be stored.
struct WeightVariant {
  std::string name;
  Footprint footprint;
};

// Returns the table. Its memory sizes are powers of two, beginning with the smallest in which the
// smallest variant fits.
FitTable make_fit_table(std::string model, const std::vector<WeightVariant>& variants,
                        uint64_t n_ctx, uint64_t adapter_bytes);

// Returns the table as text with one row for each pair of types.
std::string fit_text(const FitTable& table);

// Returns the table as an SVG chart: tokens of context, and users, over memory.
std::string fit_svg(const FitTable& table);

}  // namespace kvik
