#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/memory.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/token_id.h"
#include "tensor/kv_type.h"
#include "tensor/op_kinds.h"
#include "tensor/tensor_view.h"

namespace kvik {

// [n_rows, n_cols] f32 in the backend's memory; row r begins at data + r · stride.
struct Rows {
  float* data = nullptr;
  uint32_t n_rows = 0;
  uint32_t n_cols = 0;
  uint32_t stride = 0;

  // Columns [first, first + count) of every row.
  Rows columns(uint32_t first, uint32_t count) const {
    return {data + first, n_rows, count, stride};
  }
  // Rows [first, first + count).
  Rows slice(uint32_t first, uint32_t count) const {
    return {data + size_t{first} * stride, count, n_cols, stride};
  }
};

// A weight matrix in the form the backend computes with. The file's copy is not needed any more.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with it
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual size_t bytes() const = 0;
  // Of the tensors that it was packed from, in their order, as tensor_digest.h has it.
  virtual Hash128 source_digest() const = 0;
};

// Whose products have how many rows: one for each token, for each of its experts, or heads.
enum class WeightUse : uint8_t { kRows, kExperts, kHeads };

// Weights that take the same kernel: their type and the dimension summed over.
struct WeightKind {
  ElementType type = ElementType::kF32;
  uint32_t n_cols = 0;
  WeightUse use = WeightUse::kRows;
  friend bool operator==(const WeightKind&, const WeightKind&) = default;
};

// What decides where in a page the K and V of a token lie. One page holds kPageTokens tokens of
// all layers of a layer group.
struct KvGeometry {
  KvType type = KvType::kF32;
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  // Where not 0, there is no V: it is the first latent_dim dimensions of K, a multiple of sixteen
  // (DeepSeek-V2, 2024).
  uint32_t latent_dim = 0;
  // K of int4 has a step and a zero point for each dimension, its channel, of kChannelTokens tokens
  // (KIVI, Liu et al. 2024), and is written when the page is full, from the open page: all runs
  // have open pages.
  bool keys_by_channel = false;

  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  // Returns the geometry of the open pages beside pages of this one.
  KvGeometry of_open_pages() const {
    KvGeometry open = *this;
    open.type = kOpenType;
    open.keys_by_channel = false;
    return open;
  }
};

// Consecutive tokens of one sequence inside a batch: rows [first_row, first_row + n_rows) stand at
// positions first_position … Token t of the sequence lies in pages[t / kPageTokens].
//
// Where `open` is not empty, each row attends to its own page in kOpenType and to the pages before
// it as they are: open[i] holds, in the layout of a page of kOpenType, the tokens of page
// first_position / kPageTokens + i, up to the page of the last row. write_kv() writes to both, K by
// channel once the page is full.
struct KvRun {
  std::span<std::byte* const> pages;
  uint32_t first_position = 0;
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  std::span<std::byte* const> open = {};  // of all runs of a call or of none
};

// Where one layer's K and V lie, and whose.
struct KvTarget {
  const KvGeometry& geometry;
  uint32_t layer;  // within its layer group
  std::span<const KvRun> runs;
};

struct AttentionShape {
  uint32_t n_heads = 0;
  float scale = 0;      // scores = scale · q·k
  float soft_cap = 0;   // 0: none; else scores = cap · tanh(scores / cap)
  uint32_t window = 0;  // 0: all earlier tokens; else the last `window`, itself included
  // [n_heads] in the backend's memory: one more score of each head, of no token; null: none. It
  // takes part in the softmax and adds nothing (Xiao et al. 2023).
  const float* sinks = nullptr;
};

// Rows that go through one and the same of several stacked matrices.
struct RowGroup {
  uint32_t matrix = 0;
  uint32_t first = 0, n_rows = 0;  // of the product's rows
};

// Lists that the backend's last route() left in its memory, in the place of those of a call: the
// rows that each expert was chosen by, gathered, or in order as such a product gave them; or what
// the shared expert gave to each row.
enum class Routed : uint8_t { kNot, kChosen, kInOrder, kShared };

// Row i of a grouped product is of row rows[i] of x; where `rows` is empty, of row i. The groups
// follow each other, each of another matrix of n_matrices equal ones that were packed together.
struct GroupedRows {
  std::span<const uint32_t> rows = {};
  std::span<const RowGroup> groups = {};
  uint32_t n_matrices = 0;
  // Which row of the batch each is of, for whoever must know that of rows in order; empty: as
  // `rows` says.
  std::span<const uint32_t> owners = {};
  Routed routed = Routed::kNot;  // else the lists are empty here
  uint32_t n_routed = 0;         // rows of the product then

  uint32_t n_rows() const {
    if (routed != Routed::kNot) return n_routed;
    return groups.empty() ? 0 : groups.back().first + groups.back().n_rows;
  }
};

// What is added to a matrix: scale · b · a, in host memory (Hu et al. 2021).
struct LowRankView {
  std::span<const float> a;  // [rank, n_cols]
  std::span<const float> b;  // [n_rows, rank]
  uint32_t n_rows = 0;
  uint32_t n_cols = 0;
  uint32_t rank = 0;
  float scale = 1.0f;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16: what it is packed as
};

// The same in the form the backend computes with.
class LowRankMatrix {
 public:
  virtual ~LowRankMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with it
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual uint32_t rank() const = 0;
};

// Some rows that one such matrix is for: row x_rows[i] of x, from x_column on, is multiplied, and
// added to row out_rows[i] of out, from out_column on.
struct LowRankTerm {
  const LowRankMatrix* matrix = nullptr;
  std::span<const uint32_t> x_rows, out_rows;
  uint32_t x_column = 0, out_column = 0;
};

// For each row of a sum, n of the rows that are added to it, with their weights: [n_rows, n].
struct WeightedRows {
  std::span<const uint32_t> rows = {};
  std::span<const float> weights = {};
  uint32_t n = 0;
  Routed routed = Routed::kNot;  // else the lists are empty here
};

// How rows choose the experts that they go through (ExpertRouter says it in full): the n_used best
// of the groups that are best.
struct RouteShape {
  uint32_t n_experts = 0, n_used = 0;
  uint32_t n_groups = 1, n_groups_used = 1;
  bool is_sigmoid = false;  // what a score stands for; else softmax
  bool normalizes = true;
  bool has_shared_gate = false;  // in a column behind the experts'
  float weight_scale = 1.0f;
  std::span<const float> choice_bias = {}, factors = {};  // on the host; [n_experts], or empty
};

// The same columns of every head of a row: those of head h are [first + h · step, + n_cols).
struct HeadRows {
  Rows rows;
  uint32_t n_heads = 0;
  uint32_t step = 0;
  uint32_t first = 0;
  uint32_t n_cols = 0;
};

// Consecutive tokens of one sequence inside a batch, and the part of its state that one layer
// keeps, in the backend's memory: what stands there is behind the tokens before them, and
// afterwards behind these, but for the last n_guesses of them: they see what stands before them and
// leave no trace.
struct StateRun {
  float* state = nullptr;
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t n_guesses = 0;  // n_rows at most

  uint32_t n_kept() const { return n_rows - n_guesses; }
};

// A convolution of each channel over its newest n_taps inputs, those of the state before the first
// row's: out[t] = bias + Σ taps[i] · x[t − n_taps + 1 + i], in ascending i, then SiLU where it is
// activated.
// State: [n_taps − 1, n_channels], the oldest first.
struct ConvShape {
  const float* taps = nullptr;  // [n_taps, n_channels], the oldest first
  const float* bias = nullptr;  // [n_channels]; null: none
  uint32_t n_taps = 0;
  bool is_activated = false;
};

// The matrices of a recurrent layer: of each of n_heads heads [key_dim, value_dim], which decays by
// a factor for each token, g. Before that the outer product of the key and β (v − Sᵀ k) is added to
// it (DeltaConfig); q and k of head h are those of key_head(h).
struct RecurrenceShape {
  uint32_t n_heads = 0, n_key_heads = 0;
  uint32_t key_dim = 0, value_dim = 0;  // multiples of 16
  bool is_tiled = false;

  uint32_t key_head(uint32_t head) const {
    return is_tiled ? head % n_key_heads : head / (n_heads / n_key_heads);
  }
  // What queries of length 1 are multiplied by.
  float query_length() const { return 1.0f / std::sqrt(static_cast<float>(key_dim)); }
  // The i-th of a key head's.
  uint32_t head(uint32_t key_head, uint32_t i) const {
    return is_tiled ? i * n_key_heads + key_head : key_head * (n_heads / n_key_heads) + i;
  }
};

// What a recurrence meets: q, k [M, n_key_heads · key_dim], v [M, n_heads · value_dim], decay and
// rate (g and β) [M, n_heads].
struct RecurrenceRows {
  Rows q, k, v, decay, rate;
};

// How the heads of some layers attend.
struct HeadsUse {
  KvGeometry kv;
  uint32_t n_heads = 0;
};

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

// cos and sin of each row's rotation angles, [n_rows, n_pairs] each, in the backend's memory.
struct RopeAngles {
  const float* cos = nullptr;
  const float* sin = nullptr;
  uint32_t n_pairs = 0;  // 2 · n_pairs dimensions of a head turn, the others stay
};

// The basis in which compact pages keep K and V, so that no dimension of a head stands out among
// those that share a scale: x less a center, times a factor, then rotated by a Hadamard matrix.
// Attention is the same in any basis: queries take the inverse factors.
enum class HeadRotation : uint8_t { kNone, kForward, kBack };
struct HeadBasis {
  uint32_t head_dim = 0;
  uint32_t group = 1;  // neighboring heads that share centers and factors
  // [heads / group, head_dim], in the backend's memory
  const float* centers = nullptr;  // null: zero
  const float* factors = nullptr;  // null: one
  HeadRotation rotation = HeadRotation::kNone;
};

// The operations of the forward pass. Sizes are checked by CHECK: a wrong shape is a bug of ours.
// Rows are independent of each other: the bits of a row depend on nothing but that row, its weights
// and, for attention, its pages; not on n_rows, on threads, or on the other rows (DESIGN, section
// 4). One thread calls; the work spreads over the backend's own.
// Rows [first, first + n) of one of the matrices that are being packed, with its order of columns
// and its scale; valid until the next call. Asked for in ascending order.
using ReadRows = std::function<Result<TensorView>(size_t matrix, uint64_t first, uint64_t n)>;

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
