#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "model/config.h"
#include "model/weight_plan.h"
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
  uint64_t fixed_bytes = 0;     // without a user
  uint64_t bytes_per_user = 0;  // of FitTable::n_ctx tokens
  std::vector<Cell> cells;      // by memory
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
  WeightPlan weights;
};

// The memories are doublings, the first of them the least that holds the smallest variant.
FitTable make_fit_table(const ModelConfig& config, const std::vector<WeightVariant>& variants,
                        Backend& backend, uint64_t n_ctx);

// The most tokens, in whole pages, that one user alone can have in a memory.
uint64_t longest_context(const ModelConfig& config, const WeightPlan& weights, Backend& backend,
                         KvType type, uint64_t memory_bytes);

// As text with a row for each pair of types.
std::string fit_text(const FitTable& table);

// As a drawing: the memory against the tokens of context that fit, and what that is in users.
std::string fit_svg(const FitTable& table);

}  // namespace kvik
