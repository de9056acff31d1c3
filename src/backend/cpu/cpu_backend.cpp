#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/page_writer.h"
#include "backend/cpu/indexer/indexer.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/low_rank/low_rank.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/rows/row_loops.h"
#include "backend/cpu/rows/stream_rows.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/state/state.h"
#include "backend/exact_math.h"
#include "backend/host_memory.h"
#include "base/check.h"
#include "base/process/processors.h"
#include "tensor/largest.h"

namespace kvik {
namespace cpu {
namespace {

bool same_shape(Rows a, Rows b) { return a.n_rows == b.n_rows && a.n_cols == b.n_cols; }

}  // namespace

// Backend on the CPU, with the kernels of one instruction set. An item of work is a row, a strip of
// output columns, or the query rows of a KV head. The result of an item never depends on how the
// work is divided into items.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const InstructionSet& isa, uint32_t n_threads, HugePages huge_pages)
      : isa_(isa),
        name_(fmt::format("cpu/{}", isa.name)),
        memory_(huge_pages),
        pool_(n_threads),
        matmul_(isa.matmul, memory_, pool_),
        attention_(isa.attention, memory_, pool_),
        pages_(isa.attention, pool_),
        indexer_(isa.indexer, memory_, pool_),
        low_rank_(isa.low_rank, pool_),
        state_(isa.state, memory_, pool_) {}

  std::string_view name() const override { return name_; }
  Memory& memory() override { return memory_; }
  uint32_t n_threads() const override { return pool_.n_threads(); }
  void run_on_host(size_t n_items, const HostWork& work) override { pool_.run(n_items, work); }
  bool can_compute(ElementType type) const override { return can_pack(type); }
  std::string_view arithmetic(ElementType type) const override;

  const Result<void>& started() const { return pool_.started(); }
  Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                             const ReadRows& read) override;
  uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const override {
    return kvik::packed_bytes(type, n_rows, n_cols);
  }
  uint64_t scratch_bytes(const WorkLimits& limits) const override {
    return matmul_.scratch_bytes(limits) + attention_.scratch_bytes(limits) +
           indexer_.scratch_bytes(limits) + state_.scratch_bytes(limits);
  }
  void reserve(const WorkLimits& limits) override {
    matmul_.reserve(limits);
    attention_.reserve(limits);
    indexer_.reserve(limits);
    state_.reserve(limits);
  }
  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override;
  void matmul(Rows x, const PackedMatrix& w, Rows out) override;
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override;
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override;
  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override;
  void largest(Rows x, std::span<std::optional<uint32_t>> out) override;
  std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                               std::byte* place) override {
    return std::make_unique<LowRankPanels>(change, place);
  }
  uint64_t low_rank_bytes(const LowRankView& shape) const override {
    return LowRankPanels::bytes_of(shape.type, shape.n_rows, shape.n_cols, shape.rank);
  }
  void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) override {
    low_rank_.add(x, terms, out);
  }
  void copy_heads(const HeadRows& x, const HeadRows& out) override;
  void add_weighted(Rows x, Rows y, const WeightedRows& terms) override;
  void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) override;
  bool can_encode() const override { return true; }
  void layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows out) override;
  void gather(Rows x, std::span<const uint32_t> rows, Rows out) override;
  void add(Rows x, Rows y) override;
  void add_bias(Rows x, const float* bias) override;
  void scale(Rows x, float factor) override { on_pieces(x, isa_.rows.scale, factor); }
  void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) override;
  void scale_rows(Rows x, std::span<const float> factors) override;
  void scale_heads(Rows x, uint32_t head_dim, Rows factors) override;
  void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) override;
  void clear(Rows x) override;
  void soft_cap(Rows x, float cap) override { on_pieces(x, isa_.rows.soft_cap, cap); }
  void gated_activation(Activation activation, Rows gate, Rows up, Rows out) override;
  void limited_silu(Rows gate, Rows up, float limit, Rows out) override;
  bool has_xielu() const override { return true; }
  void xielu(Rows x, const Xielu& parameters) override {
    on_pieces(x, isa_.rows.xielu, parameters);
  }
  bool has_streams() const override { return true; }
  void limit(Rows x, float most) override { on_pieces(x, limit_row, most); }
  void add_weighted_heads(Rows x, Rows y, Rows weights) override;
  void head_gates(Rows x, Rows y, Rows out) override;
  void stream_weights(Rows x, const StreamWeightShape& shape) override;
  void match_magnitude(Rows x, Rows like) override;
  void cut_off(Rows x, float cutoff) override {
    for_rows(x, [&](size_t row) { isa_.rows.cut_off(row_of(x, row), cutoff, x.n_cols); });
  }
  void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) override;
  void change_basis(Rows x, const HeadBasis& basis) override;
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
  size_t page_bytes(const KvGeometry& geometry) const override;
  void write_kv(const KvTarget& kv, Rows k, Rows v) override { pages_.write(kv, k, v); }
  void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) override;
  bool has_indexer() const override { return true; }
  void write_index(const IndexTarget& to, Rows keys) override { indexer_.write(to, keys); }
  void select_tokens(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
                     uint32_t* tokens) override {
    indexer_.select(keys, shape, q, weights, tokens);
  }
  bool has_entries() const override { return true; }
  void compress(const EntryShape& shape, std::span<const StateRun> runs,
                std::span<const uint32_t> positions, Rows x, Rows out) override {
    state_.compress(shape, runs, positions, x, out);
  }
  void write_entries(const EntryTarget& to, Rows entries) override {
    pages_.write_entries(to, entries);
  }
  void attend_to_entries(const KvTarget& kv, const EntryTarget& entries,
                         const EntrySelection& selection, const AttentionShape& shape, Rows q,
                         Rows out) override {
    attention_.run_entries(kv, entries, selection, shape, q, out);
  }

 private:
  void for_rows(Rows x, const auto& body) { cpu::for_rows(pool_, x, body); }
  void for_pieces(Rows x, const auto& body) { cpu::for_pieces(pool_, x, body); }
  // Applies a kernel of one row and a parameter to all of x.
  void on_pieces(Rows x, auto kernel, const auto& parameter) {
    for_pieces(
        x, [&](size_t row, auto first, auto n) { kernel(row_of(x, row) + first, parameter, n); });
  }

  const InstructionSet& isa_;
  const std::string name_;
  HostMemory memory_;
  ThreadPool pool_;
  Matmul matmul_;
  Attention attention_;
  PageWriter pages_;
  Indexer indexer_;
  LowRank low_rank_;
  State state_;
};

// Only the products of bf16 pairs round differently from the other instruction sets
// (matmul_kernels.h).
std::string_view CpuBackend::arithmetic(ElementType type) const {
  const bool is_own = isa_.matmul.weights(type).format == ActivationFormat::kBF16;
  return is_own ? isa_.name : std::string_view();
}

Result<std::unique_ptr<PackedMatrix>> CpuBackend::pack(std::span<const TensorView> stacked,
                                                       const ReadRows& read) {
  CHECK(!stacked.empty());
  for (const TensorView& source : stacked) {
    const ElementTraits& t = traits(source.type);
    if (!can_pack(source.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} weights are not supported on the CPU: expected one of {}", t.name,
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
  auto packed = std::make_unique<PanelMatrix>(stacked, memory_);
  TRY(packed->fill(read, pool_));
  return packed;
}

void CpuBackend::embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) {
  const auto& packed = static_cast<const PanelMatrix&>(table);
  CHECK(out.n_rows == tokens.size() && out.n_cols == packed.n_cols());
  for_rows(out, [&](size_t row) { packed.unpack_row(tokens[row], row_of(out, row)); });
}

void CpuBackend::matmul(Rows x, const PackedMatrix& w, Rows out) {
  matmul_.run(x, static_cast<const PanelMatrix&>(w), out, MatmulInto::kOverwrite);
}

void CpuBackend::matmul_add(Rows x, const PackedMatrix& w, Rows out) {
  matmul_.run(x, static_cast<const PanelMatrix&>(w), out, MatmulInto::kAdd);
}

void CpuBackend::grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                                Rows out) {
  matmul_.run_grouped(x, static_cast<const PanelMatrix&>(w), groups, out);
}

void CpuBackend::head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) {
  matmul_.run_heads(x, static_cast<const PanelMatrix&>(w), out);
}

void CpuBackend::largest(Rows x, std::span<std::optional<uint32_t>> out) {
  CHECK(out.size() == x.n_rows);
  for_rows(x, [&](size_t row) { out[row] = index_of_largest({row_of(x, row), x.n_cols}); });
}

void CpuBackend::copy_heads(const HeadRows& x, const HeadRows& out) {
  CHECK(x.n_heads == out.n_heads && x.n_cols == out.n_cols);
  CHECK(x.rows.n_rows == out.rows.n_rows);
  for_rows(out.rows, [&](size_t row) {
    for (uint32_t head = 0; head < x.n_heads; ++head) {
      const float* from = row_of(x.rows, row) + x.first + size_t{head} * x.step;
      std::copy_n(from, x.n_cols, row_of(out.rows, row) + out.first + size_t{head} * out.step);
    }
  });
}

void CpuBackend::clear(Rows x) {
  for_rows(x, [&](size_t row) { std::fill_n(row_of(x, row), x.n_cols, 0.0f); });
}

void CpuBackend::add_weighted(Rows x, Rows y, const WeightedRows& terms) {
  CHECK(x.n_cols == y.n_cols && terms.rows.size() == size_t{x.n_rows} * terms.n);
  CHECK(terms.weights.size() == terms.rows.size());
  for_pieces(x, [&](size_t row, uint32_t first, uint32_t n) {
    for (size_t term = row * terms.n; term < (row + 1) * terms.n; ++term) {
      DCHECK(terms.rows[term] < y.n_rows);
      isa_.rows.add_scaled(row_of(x, row) + first, row_of(y, terms.rows[term]) + first,
                           terms.weights[term], n);
    }
  });
}

void CpuBackend::rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) {
  CHECK(same_shape(x, out) && weight_size > 0 && x.n_cols % weight_size == 0);
  for_rows(x, [&](size_t row) {
    for (uint32_t first = 0; first < x.n_cols; first += weight_size) {
      isa_.rows.rms_norm(row_of(x, row) + first, weight, weight_size, eps,
                         row_of(out, row) + first);
    }
  });
}

void CpuBackend::layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows out) {
  CHECK(same_shape(x, out));
  for_rows(x, [&](size_t row) {
    isa_.rows.layer_norm(row_of(x, row), weight, bias, x.n_cols, eps, row_of(out, row));
  });
}

void CpuBackend::gather(Rows x, std::span<const uint32_t> rows, Rows out) {
  CHECK(out.n_rows == rows.size() && out.n_cols == x.n_cols);
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i] < x.n_rows);
    std::copy_n(row_of(x, rows[i]), x.n_cols, row_of(out, i));
  }
}

void CpuBackend::add(Rows x, Rows y) {
  CHECK(same_shape(x, y));
  for_pieces(x, [&](size_t row, uint32_t first, uint32_t n) {
    isa_.rows.add(row_of(x, row) + first, row_of(y, row) + first, n);
  });
}

void CpuBackend::add_bias(Rows x, const float* bias) {
  for_pieces(x, [&](size_t row, uint32_t first, uint32_t n) {
    isa_.rows.add(row_of(x, row) + first, bias + first, n);
  });
}

void CpuBackend::add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) {
  for (const RowGroup& group : groups.groups) {
    CHECK(group.matrix < groups.n_matrices && group.first + group.n_rows <= x.n_rows);
    add_bias(x.slice(group.first, group.n_rows), biases + size_t{group.matrix} * x.n_cols);
  }
}

void CpuBackend::scale_rows(Rows x, std::span<const float> factors) {
  CHECK(factors.size() == x.n_rows);
  for_pieces(x, [&](size_t row, uint32_t first, uint32_t n) {
    isa_.rows.scale(row_of(x, row) + first, factors[row], n);
  });
}

void CpuBackend::scale_heads(Rows x, uint32_t head_dim, Rows factors) {
  CHECK(x.n_rows == factors.n_rows && x.n_cols == factors.n_cols * head_dim);
  for_rows(x, [&](size_t row) {
    for (uint32_t head = 0; head < factors.n_cols; ++head) {
      isa_.rows.scale(row_of(x, row) + size_t{head} * head_dim, row_of(factors, row)[head],
                      head_dim);
    }
  });
}

void CpuBackend::scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) {
  for (const uint32_t row : rows) {
    CHECK(row < x.n_rows);
    for_pieces(x.slice(row, 1), [&](size_t, uint32_t first, uint32_t n) {
      float* out = row_of(x, row) + first;
      for (uint32_t i = 0; i < n; ++i) out[i] *= factors[first + i];
    });
  }
}

void CpuBackend::gated_activation(Activation activation, Rows gate, Rows up, Rows out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  for_pieces(gate, [&](size_t row, uint32_t first, uint32_t n) {
    isa_.rows.gated_activation(activation, row_of(gate, row) + first, row_of(up, row) + first, n,
                               row_of(out, row) + first);
  });
}

void CpuBackend::limited_silu(Rows gate, Rows up, float limit, Rows out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  for_pieces(gate, [&](size_t row, uint32_t first, uint32_t n) {
    isa_.rows.limited_silu(row_of(gate, row) + first, row_of(up, row) + first, limit, n,
                           row_of(out, row) + first);
  });
}

void CpuBackend::add_weighted_heads(Rows x, Rows y, Rows weights) {
  CHECK(x.n_rows == y.n_rows && x.n_rows == weights.n_rows &&
        y.n_cols == x.n_cols * weights.n_cols);
  for_pieces(x, [&](size_t row, uint32_t first, uint32_t n) {
    for (uint32_t head = 0; head < weights.n_cols; ++head) {
      isa_.rows.add_scaled(row_of(x, row) + first, row_of(y, row) + size_t{head} * x.n_cols + first,
                           row_of(weights, row)[head], n);
    }
  });
}

void CpuBackend::head_gates(Rows x, Rows y, Rows out) {
  CHECK(same_shape(x, y) && out.n_rows == x.n_rows && x.n_cols % out.n_cols == 0);
  const uint32_t dim = x.n_cols / out.n_cols;
  for_rows(x, [&](size_t row) {
    for (uint32_t head = 0; head < out.n_cols; ++head) {
      const size_t at = size_t{head} * dim;
      row_of(out, row)[head] =
          head_gate(isa_.rows.dot(row_of(x, row) + at, row_of(y, row) + at, dim), dim);
    }
  });
}

void CpuBackend::stream_weights(Rows x, const StreamWeightShape& shape) {
  CHECK(x.n_cols == shape.n_cols() && shape.base.size() == x.n_cols);
  CHECK(shape.scales.size() == (shape.n_iterations > 0 ? 3 : 1));
  cpu::for_rows(
      pool_, x, [&](size_t row) { compute_stream_weights(shape, row_of(x, row)); },
      shape.n_iterations + 1);
}

void CpuBackend::match_magnitude(Rows x, Rows like) {
  CHECK(same_shape(x, like));
  for_rows(x, [&](size_t row) {
    const float wanted = std::sqrt(isa_.rows.mean_square(row_of(like, row), x.n_cols));
    const float own = isa_.rows.mean_square(row_of(x, row), x.n_cols);
    isa_.rows.scale(row_of(x, row), wanted / std::sqrt(std::max(own, 1e-5f)), x.n_cols);
  });
}

void CpuBackend::rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) {
  CHECK(head_dim > 0 && 2 * angles.n_pairs <= head_dim);
  CHECK(x.n_cols % head_dim == 0 || x.n_cols % head_dim >= 2 * angles.n_pairs);
  for_rows(x, [&](size_t row) {
    const float* cos = angles.cos + row * angles.n_pairs;
    const float* sin = angles.sin + row * angles.n_pairs;
    for (uint32_t first = 0; first < x.n_cols; first += head_dim) {
      isa_.rows.rope(row_of(x, row) + first, pairing, cos, sin, angles.n_pairs);
    }
  });
}

void CpuBackend::change_basis(Rows x, const HeadBasis& basis) {
  CHECK(basis.head_dim > 0 && basis.group > 0 && x.n_cols % (basis.head_dim * basis.group) == 0);
  for_rows(x, [&](size_t row) {
    for (uint32_t first = 0; first < x.n_cols; first += basis.head_dim) {
      const size_t at = size_t{first / basis.head_dim / basis.group} * basis.head_dim;
      isa_.attention.change_basis(row_of(x, row) + first, basis.head_dim,
                                  basis.centers ? basis.centers + at : nullptr,
                                  basis.factors ? basis.factors + at : nullptr, basis.rotation);
    }
  });
}

size_t CpuBackend::page_bytes(const KvGeometry& geometry) const {
  return size_t{geometry.n_layers} * geometry.n_kv_heads * layout_of(geometry).head_bytes();
}

void CpuBackend::attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) {
  CHECK(q.n_rows == out.n_rows && q.n_cols == shape.n_heads * kv.geometry.head_dim);
  CHECK(out.n_cols == shape.n_heads * kv.geometry.value_dim());
  CHECK(kv.geometry.n_kv_heads > 0 && shape.n_heads % kv.geometry.n_kv_heads == 0);
  check_runs(kv, q.n_rows);
  attention_.run(kv, shape, q, out);
}

}  // namespace cpu

namespace {

constexpr uint32_t kMaxThreads = 1024;

}  // namespace

std::vector<std::string_view> cpu_isa_names() {
  std::vector<std::string_view> names;
  for (const cpu::InstructionSet& isa : cpu::instruction_sets()) {
    if (isa.runs_here()) names.push_back(isa.name);
  }
  return names;
}

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options) {
  if (options.n_threads > kMaxThreads) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} threads: expected at most {}", options.n_threads, kMaxThreads));
  }
  const cpu::InstructionSet* isa = cpu::find_instruction_set(options.isa);
  if (!isa) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("unknown or unsupported instruction set \"{}\": this machine supports {}",
                    options.isa, fmt::join(cpu_isa_names(), ", ")));
  }
  const uint32_t n_threads =
      options.n_threads > 0 ? options.n_threads : std::min(usable_cores(), kMaxThreads);
  auto backend = std::make_unique<cpu::CpuBackend>(*isa, n_threads, options.huge_pages);
  TRY(backend->started());
  return backend;
}

}  // namespace kvik
