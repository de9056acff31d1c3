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

// The most that the operations of one step are called with.
struct WorkLimits {
  uint32_t n_rows = 0;
  uint32_t n_experts = 0;      // matrices of a grouped product
  uint32_t n_expert_rows = 0;  // rows of a grouped product
  uint32_t n_sequences = 0;
  std::vector<WeightKind> weights;
  std::vector<HeadsUse> heads;  // of each kind of layer
  uint32_t n_ctx = 0;
  std::vector<RecurrenceShape> recurrences = {};  // likewise
  uint32_t n_guessed_runs = 0;                    // runs that have guesses, in one step
};

// The operations of the forward pass. Sizes are checked by CHECK: a wrong shape is a bug of ours.
// Rows are independent of each other: the bits of a row depend on nothing but that row, its weights
// and, for attention, its pages; not on n_rows, on threads, or on the other rows (DESIGN, section
// 4). One thread calls; the work spreads over the backend's own.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu/avx512"
  virtual Memory& memory() = 0;
  virtual uint32_t n_threads() const = 0;

  // Whether weights of this type can be packed.
  virtual bool can_compute(ElementType type) const = 0;
  // Dimensions of a head that attention is computed for at most.
  virtual uint32_t most_head_dim() const { return UINT32_MAX; }

  // Names how products with weights of this type round where that is the instruction set's own way
  // ("avx512bf16"); empty where all sets give the same bits.
  virtual std::string_view arithmetic(ElementType type) const = 0;

  // Packs matrices of the same n_cols, stacked along their rows (Q over K over V), each with its
  // own type. n_cols must be whole blocks of the type. Any n_rows. Those with a `gather` of columns
  // are quantised; of experts, all share one. `stacked` tells types and shapes; what else a view
  // has comes from `read`, a few megabytes at a time. Errors: its own, kUnsupported.
  virtual Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                                     const ReadRows& read) = 0;
  // Of views whose bytes are there.
  Result<std::unique_ptr<PackedMatrix>> pack_views(std::span<const TensorView> stacked) {
    return pack(stacked, [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
      return rows_of(stacked[matrix], first, n);
    });
  }

  // PackedMatrix::bytes() of a matrix of this type, which must be one that can be computed with.
  virtual uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const = 0;

  // Bytes that operations within these limits need beside their operands; reserve() takes them, and
  // no operation within the limits allocates after that. Without it each takes what it lacks.
  virtual uint64_t scratch_bytes(const WorkLimits& limits) const = 0;
  virtual void reserve(const WorkLimits& limits) = 0;

  // A step begins, which ends with wait(). Until then a device may hold operations back, to be
  // handed over together; it knows a step again by the addresses that operations are called with.
  virtual void begin_step() {}
  // Returns when all operations so far are done. A device may return from them sooner; what is
  // copied out of its memory is what they leave there all the same.
  virtual void wait() {}
  // The step that was begun will not be completed, for want of memory: what is held back of it is
  // never done. Takes no memory.
  virtual void abandon_step() {}

  // out[r] = row tokens[r] of the table, dequantised. out: [tokens, n_cols]
  virtual void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) = 0;

  // out = x · wᵀ. x: [M, K], w: [N, K], out: [M, N]. Quantised weights see x quantised to int8, per
  // row and block of 32.
  virtual void matmul(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out += x · wᵀ: a projection back into the residual stream.
  virtual void matmul_add(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out[i] = x[rows[i]] · wᵀ with the matrix of i's group alone, of those that w is stacked from;
  // the bits of a row are those that matmul() gives it. out: [rows, N / n_matrices]
  virtual void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                              Rows out) = 0;

  // out's head h = x's head h · wᵀ with the h-th of n_heads equal matrices that w is stacked from;
  // the bits of a row are those that matmul() gives it. x and out have the same rows and heads.
  virtual void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) = 0;

  // Chooses experts for all rows by their scores, [n_rows, n_experts and the shared gate], and
  // keeps what was chosen for products of these rows until the next call; false, and nothing done,
  // where the caller has to choose.
  virtual bool route(const RouteShape& /*shape*/, Rows /*scores*/) { return false; }

  // The column of each row's largest number, the first of several, on the host; infinity and what
  // is no number are left out, and there is none where nothing else is there. out: [n_rows]
  virtual void largest(Rows x, std::span<std::optional<uint32_t>> out) = 0;

  // Packs a change of low rank into `place`, low_rank_bytes() of memory() that outlive the matrix:
  // all changes of an adapter may lie in one piece. Any thread, beside any other operation.
  virtual std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                                       std::byte* place) = 0;
  // Of one of that shape and type, in whole vectors: another one may lie behind it.
  virtual uint64_t low_rank_bytes(const LowRankView& shape) const = 0;

  // out += scale · b · (a · x) for the rows of each term; no element of out is in two of them. The
  // order of additions of a row is its own, whatever the terms. Takes memory of its own for the
  // rows' products with a, which it keeps.
  virtual void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) = 0;

  // x[r] += Σ weights[r][j] · y[rows[r][j]], in ascending j.
  virtual void add_weighted(Rows x, Rows y, const WeightedRows& terms) = 0;

  // out = x / sqrt(mean(x²) + eps) · weight, each group of `weight_size` columns for itself, so
  // that one call norms whole rows (weight_size = n_cols) or each head of a row. x may be out.
  // (Zhang and Sennrich 2019)
  virtual void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) = 0;

  // out[i] = x[rows[i]]. out must not overlap x. out: [rows, n_cols]
  virtual void gather(Rows x, std::span<const uint32_t> rows, Rows out) = 0;

  // out's heads = x's; the two must not overlap.
  virtual void copy_heads(const HeadRows& x, const HeadRows& out) = 0;

  // x = 0.
  virtual void clear(Rows x) = 0;

  // x += y.   x += bias, for every row.   x *= factor.   x = cap · tanh(x / cap).
  virtual void add(Rows x, Rows y) = 0;
  virtual void add_bias(Rows x, const float* bias) = 0;
  virtual void scale(Rows x, float factor) = 0;
  // The bias of each row's matrix: [n_matrices, n_cols]; the rows are those of a grouped product.
  virtual void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) = 0;
  // x[r] *= factors[r], which are on the host.
  virtual void scale_rows(Rows x, std::span<const float> factors) = 0;
  // x[rows[i]][c] *= factors[c]; factors: [n_cols], in memory(). Rows are ascending and differ.
  virtual void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) = 0;
  virtual void soft_cap(Rows x, float cap) = 0;

  // out = activation(gate) · up; of an activation without a gate up is not read. out may be gate.
  virtual void gated_activation(Activation activation, Rows gate, Rows up, Rows out) = 0;

  // Turns each head of x by its row's angles, in place: heads begin head_dim columns apart, and the
  // last one may end early, behind what turns. x: [M, heads · head_dim] (Su et al. 2021)
  virtual void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) = 0;

  // x = rotation((x − centers) · factors), head by head, in place. Rotating forward, then back,
  // gives back the same values. x: [M, heads · head_dim]
  virtual void change_basis(Rows x, const HeadBasis& basis) = 0;

  // out[r] = the convolution of x at row r. out must not overlap x.
  virtual void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                          Rows out) = 0;

  // decay = e^(factors · softplus(decay + biases)), rate = 1 / (1 + e^-rate); factors, biases:
  // [n_heads], on the host. Both: [M, n_heads].
  virtual void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // Brings each head of q and k to length 1, x / sqrt(Σ x² + length_eps), those of q then to the
  // shape's length of queries; afterwards their rows hold whatever. Advances the matrices of the
  // runs' states token by token: S = g S, S += k (β (v − Sᵀ k))ᵀ, out = Sᵀ q, each sum in a fixed
  // order (state.inl). out: [M, n_heads · value_dim]
  virtual void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                          const RecurrenceRows& in, float length_eps, Rows out) = 0;

  // steps = softplus(steps + biases), decay = e^(factors · steps); factors, biases: [n_heads], on
  // the host. Both: [M, n_heads].
  virtual void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // Advances matrices that are corrected by nothing: S = g S + k (rate v)ᵀ, out = Sᵀ q + skip v,
  // with a skip of each head, on the host (Dao and Gu 2024).
  virtual void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                           const RecurrenceRows& in, std::span<const float> skips, Rows out) = 0;

  // Bytes of one page of this geometry.
  virtual size_t page_bytes(const KvGeometry& geometry) const = 0;

  // Writes the new tokens' K and V into their pages. k, v: [M, n_kv_heads · head_dim]; of latent K
  // there is no v.
  virtual void write_kv(const KvTarget& kv, Rows k, Rows v) = 0;

  // Causal attention of each row over its sequence's tokens up to itself, read from pages only.
  // q: [M, n_heads · head_dim], out: [M, n_heads · value_dim]
  virtual void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) = 0;
};

}  // namespace kvik
