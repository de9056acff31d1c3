#include "format/adapter/module_order.h"

#include <fmt/format.h>

#include <variant>

#include "base/check.h"
#include "format/hf/state_tensors.h"

namespace kvik {
namespace {

using enum TensorRole;
using Order = std::vector<uint32_t>;

uint64_t rows_of(const TensorSpec& spec) { return spec.shape.size() == 1 ? 1 : spec.shape[0]; }

void add(Order& order, uint64_t first, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) order.push_back(static_cast<uint32_t>(first + i));
}

Order in_order(const std::vector<hf::RowRange>& ranges) {
  Order order;
  for (const hf::RowRange& range : ranges) add(order, range.first, range.n);
  return order;
}

// Returns the order in which rows i of the first and second half of each head are rows 2i and 2i +
// 1; empty if the GGUF file does not pair rows. Layers without RoPE are paired too.
Result<Order> paired_rows(const ModelConfig& model, TensorId tensor, uint64_t n_rows) {
  const AttentionConfig* attention = model.layers[tensor.layer].if_attention();
  if (!attention || attention->latent.rank) return Order();
  if (model.ropes[attention->rope].pairing != RopePairing::kInterleaved) return Order();
  const uint32_t head_dim = attention->head_dim;
  if (head_dim % 2 != 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("'{}' has heads of {} rows, expected an even "
                                                 "number",
                                                 name_of(tensor), head_dim));
  }
  Order order;
  for (uint64_t row = 0; row < n_rows; ++row) {
    const uint64_t in_head = row % head_dim;
    add(order, row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2, 1);
  }
  return order;
}

// Returns the order in which a matrix with rows of Q, K and V for each head has those of Q first.
Order rows_by_part(const AttentionConfig& a) {
  Order order;
  for (uint64_t part = 0; part < 3; ++part) {
    for (uint64_t head = 0; head < a.n_heads; ++head) {
      add(order, (3 * head + part) * a.head_dim, a.head_dim);
    }
  }
  return order;
}

}  // namespace

Result<ModuleOrder> module_order(const ModelConfig& model, const TensorTable& table,
                                 const Module& module, TensorId tensor) {
  const TensorSpec* spec = table.find(tensor);
  CHECK(spec);
  ModuleOrder out{.n_rows = rows_of(*spec)};
  const auto* delta = is_of_layer(tensor.role)
                          ? std::get_if<DeltaConfig>(&model.layers[tensor.layer].mixer)
                          : nullptr;
  if (module.roles.size() <= 1) {
    const bool has_rope = tensor.role == kQ || tensor.role == kK;
    if (delta) {
      Order& moved = tensor.role == kStateOutput ? out.columns : out.rows;
      moved = in_order(hf::rows_of_state(tensor.role, *delta));
    }
    if (module.has_qkv_by_head && tensor.role == kQkv) {
      out.rows = rows_by_part(model.layers[tensor.layer].attention());
    }
    if (module.pairs_rows && has_rope) {
      TRY_ASSIGN(out.rows, paired_rows(model, tensor, out.n_rows));
    }
    return out;
  }
  uint64_t first = 0;
  out.n_rows = 0;
  for (const TensorRole role : module.roles) {
    if (role == tensor.role) first = out.n_rows;
    out.n_rows += rows_of(*table.find({role, tensor.layer}));
  }
  if (delta && (tensor.role == kQkv || tensor.role == kOutputGate)) {
    out.rows = in_order(hf::rows_in_qkvz(tensor.role, *delta));
  } else {
    add(out.rows, first, rows_of(*spec));
  }
  return out;
}

}  // namespace kvik
