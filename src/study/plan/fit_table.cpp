#include "study/plan/fit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace kvik {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr size_t kMemories = 7;

// Returns a short form of a number of tokens: "128k" for 131072, "4.88k" for 5000.
std::string short_tokens(uint64_t n) {
  if (n < 1024) return fmt::format("{}", n);
  const double k = static_cast<double>(n) / 1024;
  if (k >= 1024) return fmt::format("{:.3g}M", k / 1024);
  return fmt::format("{:.3g}k", k);
}

}  // namespace

FitTable make_fit_table(std::string model, const std::vector<WeightVariant>& variants,
                        uint64_t n_ctx, uint64_t adapter_bytes) {
  FitTable table{.model = std::move(model), .n_ctx = n_ctx, .memory_bytes = {}, .rows = {}};
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const WeightVariant& v : variants) {
    least = std::min(least, v.footprint.weights().n_bytes);
  }
  uint64_t memory = kGiB;
  while (memory < least) memory *= 2;
  for (size_t i = 0; i < kMemories; ++i, memory *= 2) table.memory_bytes.push_back(memory);
  for (const WeightVariant& variant : variants) {
    for (const KvType type : {KvType::kBF16, KvType::kInt8, KvType::kInt4}) {
      FitRow row{.weights = variant.name,
                 .kv_type = type,
                 .users = variant.footprint.users(type, n_ctx),
                 .cells = {}};
      row.users.fixed_bytes += adapter_bytes;
      for (const uint64_t m : table.memory_bytes) {
        const uint64_t left = m - std::min(m, adapter_bytes);
        row.cells.push_back({variant.footprint.users_in(type, n_ctx, left),
                             variant.footprint.longest_context(type, left)});
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
