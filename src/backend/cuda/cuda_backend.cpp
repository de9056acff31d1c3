#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/kernel_tables.h"
#include "backend/cuda/low_rank/low_rank.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/route/route.h"
#include "backend/cuda/rows/rows.h"
#include "backend/cuda/state/state.h"
#include "backend/layout/kv_block.h"
#include "backend/layout/low_rank_panels.h"
#include "backend/layout/panel_matrix.h"
#include "base/check.h"

namespace kvik::cuda {
namespace {

const CudaPackedMatrix& own(const PackedMatrix& w) {
  return static_cast<const CudaPackedMatrix&>(w);
}

}  // namespace

// Backend on a GPU. Each operation launches one or a few kernels, in order. The launches of a step
// are submitted together (Stream). Memory::copy_out() returns results to the host.
class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<Device> device, uint32_t n_threads)
      : device_(std::move(device)),
        name_(fmt::format("cuda/{}", device_->info().name)),
        tables_(*device_),
        stream_(*device_, tables_),
        memory_(*device_, stream_),
        pool_(n_threads),
        rows_(stream_, memory_, tables_, device_->kernels().rows),
        matmul_(stream_, memory_, tables_, device_->kernels().matmul),
        attention_(stream_, memory_, tables_, device_->kernels().attention),
        low_rank_(stream_, memory_, tables_, device_->kernels().low_rank),
        state_(stream_, memory_, tables_, device_->kernels().state),
        routing_(stream_, memory_, tables_, device_->kernels().route) {}

  const Result<void>& started() const { return pool_.started(); }

  std::string_view name() const override { return name_; }
  Memory& memory() override { return memory_; }
  uint32_t n_threads() const override { return pool_.n_threads(); }
  void run_on_host(size_t n_items, const HostWork& work) override { pool_.run(n_items, work); }
  bool can_compute(ElementType type) const override {
    return can_multiply(device_->kernels().matmul, type);
  }
  uint32_t max_head_dim() const override { return kMaxHeadDim; }
  // All types have the bits of the scalar instruction set.
  std::string_view arithmetic(ElementType) const override { return {}; }

  Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                             const ReadRows& read) override;
  uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const override {
    return kvik::packed_bytes(type, n_rows, n_cols);
  }
  uint64_t scratch_bytes(const WorkLimits& limits) const override {
    return matmul_.scratch_bytes(limits) + attention_.scratch_bytes(limits) +
           State::scratch_bytes(limits) + Routing::scratch_bytes(limits);
  }
  void reserve(const WorkLimits& limits) override {
    matmul_.reserve(limits);
    attention_.reserve(limits);
    state_.reserve(limits);
    routing_.reserve(limits);
  }

  void begin_step() override { stream_.begin_step(); }
  void wait() override { require(stream_.wait()); }
  void abandon_step() override { stream_.abandon_step(); }

  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override {
    matmul_.embed(own(table), tokens, out);
  }
  void matmul(Rows x, const PackedMatrix& w, Rows out) override {
    matmul_.run(x, own(w), out, MatmulInto::kOverwrite);
  }
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override {
    matmul_.run(x, own(w), out, MatmulInto::kAdd);
  }
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override {
    if (groups.routed == Routed::kNot) return matmul_.run_grouped(x, own(w), groups, out);
    CHECK(groups.n_matrices == routing_.lists().n_experts);
    matmul_.run_routed(x, own(w), routing_.lists(), groups.routed, out);
  }
  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override {
    matmul_.run_heads(x, own(w), out);
  }
  bool route(const RouteShape& shape, Rows scores) override { return routing_.run(shape, scores); }
  void largest(Rows x, std::span<std::optional<uint32_t>> out) override { rows_.largest(x, out); }

  std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                               std::byte* place) override {
    return std::make_unique<CudaLowRankMatrix>(change, memory_, place);
  }
  uint64_t low_rank_bytes(const LowRankView& shape) const override {
    return LowRankPanels::bytes_of(shape.type, shape.n_rows, shape.n_cols, shape.rank);
  }
  void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) override {
    low_rank_.add(x, terms, out);
  }

  void copy_heads(const HeadRows& x, const HeadRows& out) override { rows_.copy_heads(x, out); }
  void add_weighted(Rows x, Rows y, const WeightedRows& terms) override {
    if (terms.routed == Routed::kNot) return rows_.add_weighted(x, y, terms);
    rows_.add_routed(x, y, routing_.lists(), terms.routed);
  }
  void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) override {
    rows_.rms_norm(x, weight, weight_size, eps, out);
  }
  void gather(Rows x, std::span<const uint32_t> rows, Rows out) override {
    rows_.gather(x, rows, out);
  }
  void add(Rows x, Rows y) override { rows_.add(x, y); }
  void add_bias(Rows x, const float* bias) override { rows_.add_bias(x, bias); }
  void scale(Rows x, float factor) override { rows_.scale(x, factor); }
  void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) override {
    if (groups.routed == Routed::kNot) return rows_.add_grouped_bias(x, biases, groups);
    rows_.add_routed_bias(x, biases, routing_.lists());
  }
  void scale_rows(Rows x, std::span<const float> factors) override { rows_.scale_rows(x, factors); }
  void scale_heads(Rows x, uint32_t head_dim, Rows factors) override {
    rows_.scale_heads(x, head_dim, factors);
  }
  void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) override {
    rows_.scale_columns(x, rows, factors);
  }
  void clear(Rows x) override { rows_.clear(x); }
  void soft_cap(Rows x, float cap) override { rows_.soft_cap(x, cap); }
  void gated_activation(Activation activation, Rows gate, Rows up, Rows out) override {
    rows_.gated_activation(activation, gate, up, out);
  }
  void limited_silu(Rows gate, Rows up, float limit, Rows out) override {
    rows_.limited_silu(gate, up, limit, out);
  }
  void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) override {
    rows_.rope(x, head_dim, pairing, angles);
  }

  void change_basis(Rows x, const HeadBasis& basis) override {
    CHECK(basis.head_dim > 0 && basis.group > 0 && x.n_cols % (basis.head_dim * basis.group) == 0);
    attention_.change_basis(x, basis);
  }
  void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                  Rows out) override {
    state_.short_conv(shape, runs, x, out);
  }
  void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                   std::span<const float> biases) override {
    state_.gates(decay, rate, factors, biases);
  }
  void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, float length_eps, Rows out) override {
    state_.delta_rule(shape, runs, in, length_eps, out);
  }
  void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                   std::span<const float> biases) override {
    state_.steps(steps, decay, factors, biases);
  }
  void bounded_decays(Rows inputs, Rows decay, const DecayShape& shape) override {
    state_.bounded_decays(inputs, decay, shape);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) override {
    state_.state_space(shape, runs, in, skips, out);
  }
  void selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                      const ScanRows& in, Rows out) override {
    state_.selective_scan(weights, runs, in, out);
  }

  size_t page_bytes(const KvGeometry& geometry) const override {
    return size_t{geometry.n_layers} * geometry.n_kv_heads * layout_of(geometry).head_bytes();
  }
  void write_kv(const KvTarget& kv, Rows k, Rows v) override;
  void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) override;

 private:
  const std::unique_ptr<Device> device_;
  const std::string name_;
  Tables tables_;
  Stream stream_;
  CudaMemory memory_;
  ThreadPool pool_;  // packs weights and does the work of run_on_host()
  RowOperations rows_;
  Matmul matmul_;
  Attention attention_;
  LowRank low_rank_;
  State state_;
  Routing routing_;
};

Result<std::unique_ptr<PackedMatrix>> CudaBackend::pack(std::span<const TensorView> stacked,
                                                        const ReadRows& read) {
  CHECK(!stacked.empty());
  for (const TensorView& source : stacked) {
    const ElementTraits& t = traits(source.type);
    if (!can_compute(source.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} weights are not supported on a GPU: expected one of {}", t.name,
                              computable_types(*this)));
    }
    if (source.n_cols == 0 || source.n_cols % t.block_elements != 0 || source.n_cols >> 31 != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a {} matrix of {} columns: expected whole blocks of {}", t.name,
                              source.n_cols, t.block_elements));
    }
    if (source.n_rows >> 31 != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a matrix of {} rows: expected fewer than 2^31", source.n_rows));
    }
  }
  TRY_ASSIGN(std::unique_ptr<PackedMatrix> packed,
             CudaPackedMatrix::pack(stacked, read, {memory_, pool_}));
  return packed;
}

void CudaBackend::write_kv(const KvTarget& kv, Rows k, Rows v) {
  const bool has_values = kv.geometry.latent_dim == 0;
  CHECK(k.n_cols == kv.geometry.n_kv_heads * kv.geometry.head_dim);
  CHECK(!has_values || (v.n_rows == k.n_rows && v.n_cols == k.n_cols));
  check_runs(kv, k.n_rows);
  attention_.write_kv(kv, k, v);
}

void CudaBackend::attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  CHECK(q.n_rows == out.n_rows && q.n_cols == shape.n_heads * kv.geometry.head_dim);
  CHECK(out.n_cols == shape.n_heads * kv.geometry.value_dim());
  CHECK(kv.geometry.n_kv_heads > 0 && shape.n_heads % kv.geometry.n_kv_heads == 0);
  check_runs(kv, q.n_rows);
  attention_.run(kv, shape, q, out);
}

Result<std::unique_ptr<Backend>> make_backend(std::unique_ptr<Device> device, uint32_t n_threads) {
  auto backend = std::make_unique<CudaBackend>(std::move(device), n_threads);
  TRY(backend->started());
  return backend;
}

}  // namespace kvik::cuda
