#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/memory.h"
#include "backend/ops/attention.h"
#include "backend/ops/entries.h"
#include "backend/ops/experts.h"
#include "backend/ops/indexer.h"
#include "backend/ops/matmul.h"
#include "backend/ops/rows.h"
#include "backend/ops/state.h"
#include "base/check.h"
#include "base/token_id.h"
#include "tensor/op_kinds.h"

namespace kvik {

// Upper bounds of the operations in one step, by which scratch memory is sized.
struct WorkLimits {
  uint32_t n_rows = 0;
  uint32_t n_experts = 0;      // matrices of a grouped product (experts)
  uint32_t n_expert_rows = 0;  // rows of a grouped product
  uint32_t n_sequences = 0;
  std::vector<WeightKind> weights;
  std::vector<HeadsUse> heads;  // one entry per kind of attention layer
  uint32_t n_ctx = 0;
  std::vector<RecurrenceShape> recurrences = {};  // one entry per kind of recurrent layer
  uint32_t n_draft_runs = 0;                      // runs with draft tokens in one step
  uint32_t n_draft_tokens = 0;                    // draft tokens of one run
};

// The operations of the forward pass. Shapes are verified by CHECK, because a wrong shape is a bug.
//
// Rows are independent: the bits of a row depend only on that row, its weights and, for attention,
// its pages. They do not depend on n_rows, on the number of threads or on other rows.
//
// Operations are called from one thread; the backend distributes the work to its own threads.
// Functions with a body are optional for a device.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu/avx512"
  virtual Memory& memory() = 0;
  virtual uint32_t n_threads() const = 0;  // of the host

  // Calls work(item, thread) once for each item in [0, n_items) on the threads of the host, and
  // returns when all calls are done. thread < n_threads(). The calls must not throw.
  using HostWork = std::function<void(size_t item, uint32_t thread)>;
  virtual void run_on_host(size_t n_items, const HostWork& work) = 0;

  // Returns whether weights of this type can be packed.
  virtual bool can_compute(ElementType type) const = 0;
  // Returns the maximum head_dim that attention supports.
  virtual uint32_t max_head_dim() const { return UINT32_MAX; }

  // Returns the name of the instruction set ("avx512bf16") if it rounds products with weights of
  // this type in its own way; empty if all instruction sets give the same bits.
  virtual std::string_view arithmetic(ElementType type) const = 0;

  // Packs matrices with equal n_cols, stacked along their rows (Q, K, V), each with its own type.
  // n_cols must be a multiple of the type's block size; n_rows is arbitrary. Only quantized
  // matrices may have a `gather` (the order of the columns of x, as GPTQ's act-order files need
  // it), and the matrices of experts must have the same one.
  // `stacked` gives types and shapes; `read` returns everything else, a few megabytes at a time.
  // Errors: those of `read`; kCorrupt for a number of the matrix read last that is not finite;
  // kUnsupported for a type, kInvalidArgument for a bad shape; kExhausted without device memory.
  virtual Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                                     const ReadRows& read) = 0;
  // Like pack(), for views that hold their bytes.
  Result<std::unique_ptr<PackedMatrix>> pack_views(std::span<const TensorView> stacked) {
    return pack(stacked, [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
      return rows_of(stacked[matrix], first, n);
    });
  }

  // Returns PackedMatrix::bytes() of a matrix of this shape and type. The type must be supported.
  virtual uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const = 0;

  // Returns the bytes of scratch memory that operations within these limits need in addition to
  // their operands. reserve() allocates that memory in advance; otherwise each operation allocates
  // what it needs.
  virtual uint64_t scratch_bytes(const WorkLimits& limits) const = 0;
  virtual void reserve(const WorkLimits& limits) = 0;

  // Begins a step, which ends with wait(). During a step a device may defer operations and submit
  // them together, and may reuse the submission of an earlier step that had the same sequence of
  // kernels.
  virtual void begin_step() {}
  // Returns when all operations so far are done. An operation may return before its work is done,
  // but Memory::copy_out() always sees its results.
  virtual void wait() {}
  // Abandons the step, when memory has run out, and drops deferred operations. Allocates nothing.
  virtual void abandon_step() {}

  // out[r] = row tokens[r] of the table, dequantized. out: [tokens, n_cols]
  virtual void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) = 0;

  // out = x · wᵀ. x: [M, K], w: [N, K], out: [M, N]. With quantized weights, x is quantized to int8
  // per row and block of 32.
  virtual void matmul(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out += x · wᵀ: adds a projection to the residual stream.
  virtual void matmul_add(Rows x, const PackedMatrix& w, Rows out) = 0;

  // out[i] = x[rows[i]] · wᵀ, with the matrix of row i's group. w is stacked from n_matrices equal
  // matrices. The bits of a row are those of matmul(). out: [rows, N / n_matrices]
  virtual void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                              Rows out) = 0;

  // Multiplies head h of x by matrix h and writes head h of out. w is stacked from n_heads equal
  // matrices. The bits of a row are those of matmul(). x and out have the same number of rows and
  // heads.
  virtual void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) = 0;

  // Selects the experts of each row by the row's scores and keeps the selection, until the next
  // call, for grouped products of these rows (Routed). scores: [n_rows, n_experts], followed by the
  // column of the shared expert's gate if there is one. Returns false and does nothing if the
  // backend does not support this; the caller then selects the experts.
  virtual bool route(const RouteShape& /*shape*/, Rows /*scores*/) { return false; }

  // Finds the column of each row's largest number; the first such column wins. Infinities and NaN
  // are ignored; the result is std::nullopt if a row has no other numbers. Returns when the results
  // are in host memory. out: [n_rows]
  virtual void largest(Rows x, std::span<std::optional<uint32_t>> out) = 0;

  // Packs a low-rank update into `place`: low_rank_bytes() bytes of memory() that must outlive the
  // matrix. All updates of an adapter can thus share one buffer. May be called on any thread,
  // concurrently with other operations.
  virtual std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                                       std::byte* place) = 0;
  // Returns the size of a packed update of that shape and type, rounded up so that another update
  // may follow it in the same buffer.
  virtual uint64_t low_rank_bytes(const LowRankView& shape) const = 0;

  // out += scale · b · (a · x) for the rows of each term. No element of out may be in two terms.
  // The order in which a row is added up does not depend on the terms. The memory for a · x is
  // allocated when it is first needed and then kept.
  virtual void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) = 0;

  // x[r] += Σ weights[r][j] · y[rows[r][j]], in ascending j.
  virtual void add_weighted(Rows x, Rows y, const WeightedRows& terms) = 0;

  // out = x / sqrt(mean(x²) + eps) · weight, separately for each group of `weight_size` columns:
  // one call normalizes whole rows (weight_size = n_cols) or each head of a row. x may be out.
  // (Zhang and Sennrich 2019)
  virtual void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) = 0;

  // Returns whether the device has layer_norm() and attention over AttentionReach::kBoth, which
  // encoders need.
  virtual bool can_encode() const { return false; }
  // out = (x − mean(x)) / sqrt(variance(x) + eps) · weight + bias, for each row. weight, bias:
  // [n_cols]; bias may be null. x may be out. (Ba et al. 2016)
  virtual void layer_norm(Rows /*x*/, const float* /*weight*/, const float* /*bias*/, float /*eps*/,
                          Rows /*out*/) {
    CHECK(false && "layer_norm() without can_encode()");
  }

  // out[i] = x[rows[i]]. out must not overlap x. out: [rows, n_cols]
  virtual void gather(Rows x, std::span<const uint32_t> rows, Rows out) = 0;

  // Copies the heads of x to out, which must not overlap x.
  virtual void copy_heads(const HeadRows& x, const HeadRows& out) = 0;

  // x = 0.
  virtual void clear(Rows x) = 0;

  // add: x += y. add_bias: x += bias, for every row. scale: x *= factor.
  virtual void add(Rows x, Rows y) = 0;
  virtual void add_bias(Rows x, const float* bias) = 0;
  virtual void scale(Rows x, float factor) = 0;
  // Adds to each row of a grouped product the bias of the row's matrix. biases: [n_matrices,
  // n_cols]
  virtual void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) = 0;
  // x[r] *= factors[r]; factors: [n_rows], on the host.
  virtual void scale_rows(Rows x, std::span<const float> factors) = 0;
  // x[r][h · head_dim + d] *= factors[r][h]. x: [M, heads · head_dim], factors: [M, heads]
  virtual void scale_heads(Rows x, uint32_t head_dim, Rows factors) = 0;
  // x[rows[i]][c] *= factors[c]; factors: [n_cols], in memory(). `rows` is ascending and has no
  // duplicates.
  virtual void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) = 0;
  // x = cap · tanh(x / cap)
  virtual void soft_cap(Rows x, float cap) = 0;

  // out = activation(gate) · up. An activation without a gate does not read `up`. out may be gate.
  virtual void gated_activation(Activation activation, Rows gate, Rows up, Rows out) = 0;

  // out = min(silu(gate), limit) · y, where y is `up` clamped to ±limit; limit > 0. out may be
  // gate.
  virtual void limited_silu(Rows gate, Rows up, float limit, Rows out) = 0;

  // Returns whether the device has xielu().
  virtual bool has_xielu() const { return false; }
  // x = xIELU(x)
  virtual void xielu(Rows /*x*/, const Xielu& /*parameters*/) {
    CHECK(false && "xielu() without has_xielu()");
  }

  // x = min(x, most); only with has_streams().
  virtual void limit(Rows /*x*/, float /*most*/) {
    CHECK(false && "limit() without has_streams()");
  }

  // Returns whether the device has limit() and the next five operations, which models with several
  // residual streams need.
  virtual bool has_streams() const { return false; }
  // x[r] += Σ weights[r][h] · y[r][h · n_cols …], in ascending h. x: [M, n_cols], y: [M, heads ·
  // n_cols], weights: [M, heads]
  virtual void add_weighted_heads(Rows /*x*/, Rows /*y*/, Rows /*weights*/) {
    CHECK(false && "add_weighted_heads() without has_streams()");
  }
  // out[r][h] = sigmoid(root(x[r][h] · y[r][h] / sqrt(dim))) for the heads of x and y, where
  // root(g) = sign(g) · sqrt(max(|g|, 1e-6)). x, y: [M, heads · dim], out: [M, heads]
  virtual void head_gates(Rows /*x*/, Rows /*y*/, Rows /*out*/) {
    CHECK(false && "head_gates() without has_streams()");
  }
  // x = the weights of streams that follow from such a projection, for each row.
  virtual void stream_weights(Rows /*x*/, const StreamWeightShape& /*shape*/) {
    CHECK(false && "stream_weights() without has_streams()");
  }
  // x *= sqrt(mean(like²)) / sqrt(max(mean(x²), 1e-5)), for each row.
  virtual void match_magnitude(Rows /*x*/, Rows /*like*/) {
    CHECK(false && "match_magnitude() without has_streams()");
  }
  // x = max(x − (mean(x) + cutoff · deviation(x)), 0), for each row.
  virtual void cut_off(Rows /*x*/, float /*cutoff*/) {
    CHECK(false && "cut_off() without has_streams()");
  }

  // Applies RoPE to each head of x in place. Heads begin head_dim columns apart, and the last one
  // may end after its rotated dimensions. x: [M, heads · head_dim] (Su et al. 2021)
  virtual void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) = 0;

  // x = rotation((x − centers) · factors), head by head, in place. A forward rotation followed by a
  // backward rotation restores the values. x: [M, heads · head_dim]
  virtual void change_basis(Rows x, const HeadBasis& basis) = 0;

  // out[r] = the convolution of x at row r. out must not overlap x.
  virtual void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                          Rows out) = 0;

  // decay = e^(factors · softplus(decay + biases)), rate = 1 / (1 + e^-rate). decay, rate: [M,
  // n_heads]; factors, biases: [n_heads], on the host.
  virtual void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // Applies the gated delta rule. First normalizes each head of q and k to length 1, x / sqrt(Σ x²
  // + length_eps), and multiplies q by the shape's query_length(); the rows of q and k are
  // undefined afterwards. Then advances the state matrices of the runs token by token: S = g S, S
  // += k (β (v − Sᵀ k))ᵀ, out = Sᵀ q, each sum in a fixed order (state.inl). out: [M, n_heads ·
  // value_dim]
  virtual void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                          const RecurrenceRows& in, float length_eps, Rows out) = 0;

  // steps = softplus(steps + biases), decay = e^(factors · steps). steps, decay: [M, n_heads];
  // factors, biases: [n_heads], on the host.
  virtual void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                           std::span<const float> biases) = 0;

  // decay = e^(bound / (1 + e^−(factors · (inputs + biases)))). inputs, decay: [M, n_heads]
  virtual void bounded_decays(Rows inputs, Rows decay, const DecayShape& shape) = 0;

  // Advances state matrices without the delta rule's correction: S = g S + k (rate v)ᵀ, out = Sᵀ q
  // + skip v. skips: [n_heads], on the host. (Dao and Gu 2024)
  virtual void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                           const RecurrenceRows& in, std::span<const float> skips, Rows out) = 0;

  // Advances the states of the runs by Mamba's recurrence. The weights are in memory(); the steps
  // are undefined afterwards. out: [M, n_channels]
  virtual void selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                              const ScanRows& in, Rows out) = 0;

  // Returns the bytes of a page of this geometry.
  virtual size_t page_bytes(const KvGeometry& geometry) const = 0;

  // Writes the K and V of new tokens into their pages. k, v: [M, n_kv_heads · head_dim]; latent K
  // (MLA) has no v.
  virtual void write_kv(const KvTarget& kv, Rows k, Rows v) = 0;

  // Attention: each row attends to the tokens of its sequence up to its own position, or on both
  // sides of it (AttentionReach), which are read from pages only. q: [M, n_heads · head_dim], out:
  // [M, n_heads · value_dim]
  virtual void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) = 0;

  // Returns whether the device has the next two operations and AttentionShape::selected.
  virtual bool has_indexer() const { return false; }
  // Writes the index keys of new tokens into their pages. keys: [M, dim]
  virtual void write_index(const IndexTarget& /*to*/, Rows /*keys*/) {
    CHECK(false && "write_index() without has_indexer()");
  }
  // Selects, for each row of the runs that could attend to more tokens than the shape's n_budget(),
  // the tokens or blocks with the highest scores; among equal scores those at lower positions. q:
  // [M, n_heads · dim], weights: [M, n_heads], not read if heads select on their own, lists: [M,
  // n_lists, n_top], ascending, in memory()
  virtual void select_tokens(const IndexTarget& /*keys*/, const IndexShape& /*shape*/, Rows /*q*/,
                             Rows /*weights*/, uint32_t* /*lists*/) {
    CHECK(false && "select_tokens() without has_indexer()");
  }

  // Returns whether the device has the next three operations.
  virtual bool has_entries() const { return false; }
  // Adds the tokens of the runs to entries; positions: of the rows of x, on the host. x: [M, values
  // · parts, then gates · parts], out: [M, dim], the entry in the row of its last token, elsewhere
  // zero
  virtual void compress(const EntryShape& /*shape*/, std::span<const StateRun> /*runs*/,
                        std::span<const uint32_t> /*positions*/, Rows /*x*/, Rows /*out*/) {
    CHECK(false && "compress() without has_entries()");
  }
  // Writes entries into their pages. entries: [M, dim], each in the row of its last token
  virtual void write_entries(const EntryTarget& /*to*/, Rows /*entries*/) {
    CHECK(false && "write_entries() without has_entries()");
  }
  // Attention to entries, and to the tokens of the shape's window, as attention() does. kv has
  // latent K of one KV head of the same geometry as the entries, and the same runs.
  virtual void attend_to_entries(const KvTarget& /*kv*/, const EntryTarget& /*entries*/,
                                 const EntrySelection& /*selection*/,
                                 const AttentionShape& /*shape*/, Rows /*q*/, Rows /*out*/) {
    CHECK(false && "attend_to_entries() without has_entries()");
  }
};

// Returns the names of all types that the backend can compute with, separated by commas, for
// messages.
std::string computable_types(const Backend& backend);

}  // namespace kvik
