#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/footprint.h"
#include "tensor/kv_type.h"

namespace kvik {

// What a model with weights and pages of some types leaves room for, in memories of several sizes.
struct FitRow {
  struct Cell {
    uint64_t n_users = 0;      // of FitTable::n_ctx tokens each, at a time
    uint64_t longest_ctx = 0;  // tokens that one user alone could have
  };
  std::string weights;  // what the matrices are stored as
  KvType kv_type = KvType::kInt8;
  UserFit users;            // of FitTable::n_ctx tokens each
  std::vector<Cell> cells;  // by memory
};

struct FitTable {
  std::string model;
  uint64_t n_ctx = 0;
  std::vector<uint64_t> memory_bytes;
  std::vector<FitRow> rows;
};

// One way in which a model's weights may be stored.
struct WeightVariant {
  std::string name;
  Footprint footprint;
};

// The memories are doublings, the first of them the least that holds the smallest variant.
FitTable make_fit_table(std::string model, const std::vector<WeightVariant>& variants,
                        uint64_t n_ctx, uint64_t adapter_bytes);

// As text with a row for each pair of types.
std::string fit_text(const FitTable& table);

// As a drawing: the memory against the tokens of context that fit, and what that is in users.
std::string fit_svg(const FitTable& table);

}  // namespace kvik
