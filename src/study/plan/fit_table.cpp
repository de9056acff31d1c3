#include "study/plan/fit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/quantity.h"
#include "engine/memory_plan.h"

namespace kvik {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr size_t kMemories = 7;
constexpr uint64_t kMaxContext = uint64_t{1} << 28;

// Bytes of an engine with pages for so many users of n_ctx tokens.
class EngineBytes {
 public:
  EngineBytes(const ModelConfig& config, const WeightPlan& weights, Backend& backend, KvType type)
      : config_(config), weights_(weights), backend_(backend), type_(type) {}

  uint64_t operator()(uint64_t n_ctx, uint64_t n_users) const {
    const uint64_t per_user = kv_bytes_of_sequence(config_, backend_, type_, n_ctx);
    return plan_memory(config_, weights_, backend_,
                       {.kv_budget_bytes = per_user * n_users,
                        .kv_type = type_,
                        .n_ctx_max = static_cast<uint32_t>(n_ctx)})
        .total_bytes();
  }

 private:
  const ModelConfig& config_;
  const WeightPlan& weights_;
  Backend& backend_;
  KvType type_;
};

// The most tokens that one user can have, by halving; whole pages.
uint64_t longest_context(const EngineBytes& bytes, uint64_t memory_bytes) {
  uint64_t fits = 0;
  uint64_t too_much = kMaxContext / kPageTokens;
  while (too_much - fits > 1) {
    const uint64_t middle = fits + (too_much - fits) / 2;
    (bytes(middle * kPageTokens, 1) <= memory_bytes ? fits : too_much) = middle;
  }
  return fits * kPageTokens;
}

// 131072 → "128k", 5000 → "4.9k".
std::string short_tokens(uint64_t n) {
  if (n < 1024) return fmt::format("{}", n);
  const double k = static_cast<double>(n) / 1024;
  if (k >= 1024) return fmt::format("{:.3g}M", k / 1024);
  return fmt::format("{:.3g}k", k);
}

}  // namespace

uint64_t longest_context(const ModelConfig& config, const WeightPlan& weights, Backend& backend,
                         KvType type, uint64_t memory_bytes) {
  return longest_context(EngineBytes(config, weights, backend, type), memory_bytes);
}

FitTable make_fit_table(const ModelConfig& config, const std::vector<WeightVariant>& variants,
                        Backend& backend, uint64_t n_ctx) {
  FitTable table{.model = config.name, .n_ctx = n_ctx, .memory_bytes = {}, .rows = {}};
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const WeightVariant& v : variants) least = std::min(least, v.weights.n_bytes);
  uint64_t memory = kGiB;
  while (memory < least) memory *= 2;
  for (size_t i = 0; i < kMemories; ++i, memory *= 2) table.memory_bytes.push_back(memory);
  for (const WeightVariant& variant : variants) {
    for (const KvType type : {KvType::kBF16, KvType::kInt8, KvType::kInt4}) {
      const EngineBytes bytes(config, variant.weights, backend, type);
      const uint64_t fixed = bytes(n_ctx, 0);
      FitRow row{.weights = variant.name,
                 .kv_type = type,
                 .fixed_bytes = fixed,
                 .bytes_per_user = bytes(n_ctx, 1) - fixed,
                 .cells = {}};
      for (const uint64_t m : table.memory_bytes) {
        const uint64_t left = m - std::min(m, fixed);
        row.cells.push_back({left / row.bytes_per_user, longest_context(bytes, m)});
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string fit_text(const FitTable& table) {
  std::string out = fmt::format(
      "users of {} tokens that fit into a memory, and the longest context of one user alone\n"
      "{:<10}{:<8}",
      table.n_ctx, "weights", "KV type");
  for (const uint64_t memory : table.memory_bytes) {
    out += fmt::format("{:>14}", fmt::format("{} GiB", memory / kGiB));
  }
  out += '\n';
  for (const FitRow& row : table.rows) {
    out += fmt::format("{:<10}{:<8}", row.weights, name_of(row.kv_type));
    for (const FitRow::Cell& cell : row.cells) {
      const std::string text = cell.longest_ctx == 0 ? "-"
                                                     : fmt::format("{} ({})", cell.n_users,
                                                                   short_tokens(cell.longest_ctx));
      out += fmt::format("{:>14}", text);
    }
    out += '\n';
  }
  return out;
}

}  // namespace kvik
