#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/memory.h"
#include "backend/ops/attention.h"
#include "backend/ops/experts.h"
#include "backend/ops/matmul.h"
#include "backend/ops/rows.h"
#include "backend/ops/state.h"
#include "base/token_id.h"
#include "tensor/op_kinds.h"

namespace kvik {

// Upper bounds of the operations of one step.
struct WorkLimits {
  uint32_t n_rows = 0;
  uint32_t n_experts = 0;      // matrices of a grouped product
  uint32_t n_expert_rows = 0;  // rows of a grouped product
  uint32_t n_sequences = 0;
  std::vector<WeightKind> weights;
  std::vector<HeadsUse> heads;  // of each kind of layer
  uint32_t n_ctx = 0;
  std::vector<RecurrenceShape> recurrences = {};  // likewise
  uint32_t n_draft_runs = 0;                      // runs with draft tokens in one step
};

// The operations of the forward pass. Shapes are verified by CHECK: a wrong shape is a bug. Rows
// are independent: the bits of a row depend only on that row, its weights and, for attention, its
// pages, and not on n_rows, threads or other rows. One thread calls; the backend distributes the
// work to its own threads.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu/avx512"
  virtual Memory& memory() = 0;
  virtual uint32_t n_threads() const = 0;

  // Returns whether weights of this type can be packed.
  virtual bool can_compute(ElementType type) const = 0;
  // Maximum head_dim of attention.
  virtual uint32_t most_head_dim() const { return UINT32_MAX; }

  // Returns a name for the rounding of products with weights of this type if it is specific to the
  // instruction set ("avx512bf16"); empty if all sets give the same bits.
  virtual std::string_view arithmetic(ElementType type) const = 0;

  // Packs matrices with equal n_cols, stacked along their rows (Q, K, V), each with its own type.
  // n_cols must be whole blocks of the type; n_rows is arbitrary. Matrices with a `gather` of
  // columns are quantized; those of experts share one. `stacked` gives types and shapes; everything
  // else about a view comes from `read`, a few megabytes at a time. Errors: those of `read`,
  // kUnsupported.
  virtual Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                                     const ReadRows& read) = 0;
  // Like pack(), for views with bytes.
  Result<std::unique_ptr<PackedMatrix>> pack_views(std::span<const TensorView> stacked) {
    return pack(stacked, [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
      return rows_of(stacked[matrix], first, n);
    });
  }

  // Returns PackedMatrix::bytes() of a matrix of this type, which must be supported.
  virtual uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const = 0;

  // Returns the scratch memory that operations within these limits need in addition to their
  // operands; reserve() allocates it, and operations within the limits then allocate nothing.
  // Without reserve() each operation allocates what it lacks.
  virtual uint64_t scratch_bytes(const WorkLimits& limits) const = 0;
  virtual void reserve(const WorkLimits& limits) = 0;

  // Begins a step, which ends with wait(). Until then a device may defer operations and submit them
  // together; it recognizes a repeated step by the addresses of its operations.
  virtual void begin_step() {}
  // Returns when all operations so far are done. A device may return from them earlier; memory
  // copied out of it has their results nevertheless.
  virtual void wait() {}
  // Abandons the step for lack of memory: deferred operations are dropped. Allocates nothing.
  virtual void abandon_step() {}

  // out[r] = row tokens[r] of the table, dequantized. out: [tokens, n_cols]
  virtual void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) = 0;

  // out = x · wᵀ. x: [M, K], w: [N, K], out: [M, N]. With quantized weights, x is quantized to int8
  // per row and block of 32.
  virtual void matmul(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out += x · wᵀ: a projection back into the residual stream.
  virtual void matmul_add(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out[i] = x[rows[i]] · wᵀ with the matrix of i's group, one of those that w is stacked from; the
  // bits of a row are those of matmul(). out: [rows, N / n_matrices]
  virtual void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                              Rows out) = 0;

  // Head h of out = head h of x · wᵀ with the h-th of n_heads equal matrices that w is stacked
  // from; the bits of a row are those of matmul(). x and out have the same rows and heads.
  virtual void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) = 0;

  // Selects experts for all rows by their scores, [n_rows, n_experts and the shared gate], and
  // keeps the selection for products of these rows until the next call. Returns false and does
  // nothing if the caller must select.
  virtual bool route(const RouteShape& /*shape*/, Rows /*scores*/) { return false; }

  // Computes the column of each row's largest number, the first of several, on the host. Infinities
  // and NaN are ignored; std::nullopt if nothing else is there. out: [n_rows]
  virtual void largest(Rows x, std::span<std::optional<uint32_t>> out) = 0;

  // Packs a low-rank update into `place`, low_rank_bytes() of memory() that outlive the matrix, so
  // that all updates of an adapter may share one buffer. Any thread, concurrently with other
  // operations.
  virtual std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                                       std::byte* place) = 0;
  // Returns the bytes of an update of that shape and type, in whole vectors, so that another may
  // follow it.
  virtual uint64_t low_rank_bytes(const LowRankView& shape) const = 0;

  // out += scale · b · (a · x) for the rows of each term; no element of out is in two terms. The
  // order of a row's additions does not depend on the terms. Allocates memory for the rows'
  // products with a, and keeps it.
  virtual void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) = 0;

  // x[r] += Σ weights[r][j] · y[rows[r][j]], in ascending j.
  virtual void add_weighted(Rows x, Rows y, const WeightedRows& terms) = 0;

  // out = x / sqrt(mean(x²) + eps) · weight, separately for each group of `weight_size` columns, so
  // that one call normalizes whole rows (weight_size = n_cols) or each head of a row. x may be out.
  // (Zhang and Sennrich 2019)
  virtual void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) = 0;

  // out[i] = x[rows[i]]. out must not overlap x. out: [rows, n_cols]
  virtual void gather(Rows x, std::span<const uint32_t> rows, Rows out) = 0;

  // Copies the heads of x to out, which must not overlap.
  virtual void copy_heads(const HeadRows& x, const HeadRows& out) = 0;

  // x = 0.
  virtual void clear(Rows x) = 0;

  // x += y.   x += bias, for every row.   x *= factor.   x = cap · tanh(x / cap).
  virtual void add(Rows x, Rows y) = 0;
  virtual void add_bias(Rows x, const float* bias) = 0;
  virtual void scale(Rows x, float factor) = 0;
  // Adds the bias of each row's matrix: [n_matrices, n_cols]; the rows are those of a grouped
  // product.
  virtual void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) = 0;
  // x[r] *= factors[r], which are on the host.
  virtual void scale_rows(Rows x, std::span<const float> factors) = 0;
  // x[rows[i]][c] *= factors[c]; factors: [n_cols], in memory(). Rows are ascending and distinct.
  virtual void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) = 0;
  virtual void soft_cap(Rows x, float cap) = 0;

  // out = activation(gate) · up; for an activation without a gate, up is not read. out may be gate.
  virtual void gated_activation(Activation activation, Rows gate, Rows up, Rows out) = 0;

  // Applies RoPE to each head of x in place. Heads begin head_dim columns apart, and the last one
  // may end after its rotated dimensions. x: [M, heads · head_dim] (Su et al. 2021)
  virtual void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) = 0;

  // x = rotation((x − centers) · factors), head by head, in place. Forward followed by backward
  // rotation gives the same values. x: [M, heads · head_dim]
  virtual void change_basis(Rows x, const HeadBasis& basis) = 0;

  // out[r] = the convolution of x at row r. out must not overlap x.
  virtual void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                          Rows out) = 0;

  // decay = e^(factors · softplus(decay + biases)), rate = 1 / (1 + e^-rate); factors, biases:
  // [n_heads], on the host. Both: [M, n_heads].
  virtual void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // Normalizes each head of q and k to length 1, x / sqrt(Σ x² + length_eps), and scales q to the
  // shape's query length; their rows are undefined afterwards. Advances the state matrices of the
  // runs token by token: S = g S, S += k (β (v − Sᵀ k))ᵀ, out = Sᵀ q, each sum in a fixed order
  // (state.inl). out: [M, n_heads · value_dim]
  virtual void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                          const RecurrenceRows& in, float length_eps, Rows out) = 0;

  // steps = softplus(steps + biases), decay = e^(factors · steps); factors, biases: [n_heads], on
  // the host. Both: [M, n_heads].
  virtual void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // Advances state matrices without correction: S = g S + k (rate v)ᵀ, out = Sᵀ q + skip v, with a
  // skip per head, on the host (Dao and Gu 2024).
  virtual void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                           const RecurrenceRows& in, std::span<const float> skips, Rows out) = 0;

  // Returns the size of a page of this geometry in bytes.
  virtual size_t page_bytes(const KvGeometry& geometry) const = 0;

  // Writes the K and V of new tokens into their pages. k, v: [M, n_kv_heads · head_dim]; latent K
  // (MLA) has no v.
  virtual void write_kv(const KvTarget& kv, Rows k, Rows v) = 0;

  // Causal attention of each row over the tokens of its sequence up to itself, read from pages
  // only. q: [M, n_heads · head_dim], out: [M, n_heads · value_dim]
  virtual void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) = 0;
};

}  // namespace kvik
