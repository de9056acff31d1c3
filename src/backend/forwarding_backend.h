#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "backend/backend.h"

namespace kvik {

// Forwards every operation to another backend. Base class of decorators.
class ForwardingBackend : public Backend {
 public:
  // `next` must outlive this object.
  explicit ForwardingBackend(Backend& next) : next_(next) {}

  std::string_view name() const override { return next_.name(); }
  Memory& memory() override { return next_.memory(); }
  uint32_t n_threads() const override { return next_.n_threads(); }
  void run_on_host(size_t n_items, const HostWork& work) override {
    next_.run_on_host(n_items, work);
  }
  bool can_compute(ElementType type) const override { return next_.can_compute(type); }
  uint32_t max_head_dim() const override { return next_.max_head_dim(); }
  std::string_view arithmetic(ElementType type) const override { return next_.arithmetic(type); }
  Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                             const ReadRows& read) override {
    return next_.pack(stacked, read);
  }
  uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const override {
    return next_.packed_bytes(type, n_rows, n_cols);
  }
  uint64_t scratch_bytes(const WorkLimits& limits) const override {
    return next_.scratch_bytes(limits);
  }
  void reserve(const WorkLimits& limits) override { next_.reserve(limits); }
  void begin_step() override { next_.begin_step(); }
  void wait() override { next_.wait(); }
  void abandon_step() override { next_.abandon_step(); }

  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override {
    next_.embed(table, tokens, out);
  }
  void matmul(Rows x, const PackedMatrix& w, Rows out) override { next_.matmul(x, w, out); }
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override { next_.matmul_add(x, w, out); }
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override {
    next_.grouped_matmul(x, w, groups, out);
  }

  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override {
    next_.head_matmul(x, w, out);
  }
  bool route(const RouteShape& shape, Rows scores) override { return next_.route(shape, scores); }
  void largest(Rows x, std::span<std::optional<uint32_t>> out) override { next_.largest(x, out); }
  std::unique_ptr<LowRankMatrix> pack_low_rank(const LowRankView& change,
                                               std::byte* place) override {
    return next_.pack_low_rank(change, place);
  }
  uint64_t low_rank_bytes(const LowRankView& shape) const override {
    return next_.low_rank_bytes(shape);
  }
  void add_low_rank(Rows x, std::span<const LowRankTerm> terms, Rows out) override {
    next_.add_low_rank(x, terms, out);
  }
  void copy_heads(const HeadRows& x, const HeadRows& out) override { next_.copy_heads(x, out); }

  void add_weighted(Rows x, Rows y, const WeightedRows& terms) override {
    next_.add_weighted(x, y, terms);
  }
  void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) override {
    next_.rms_norm(x, weight, weight_size, eps, out);
  }
  bool can_encode() const override { return next_.can_encode(); }
  void layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows out) override {
    next_.layer_norm(x, weight, bias, eps, out);
  }
  void gather(Rows x, std::span<const uint32_t> rows, Rows out) override {
    next_.gather(x, rows, out);
  }
  void add(Rows x, Rows y) override { next_.add(x, y); }
  void add_bias(Rows x, const float* bias) override { next_.add_bias(x, bias); }
  void scale(Rows x, float factor) override { next_.scale(x, factor); }
  void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) override {
    next_.add_grouped_bias(x, biases, groups);
  }
  void scale_rows(Rows x, std::span<const float> factors) override { next_.scale_rows(x, factors); }
  void scale_heads(Rows x, uint32_t head_dim, Rows factors) override {
    next_.scale_heads(x, head_dim, factors);
  }
  void scale_columns(Rows x, std::span<const uint32_t> rows, const float* factors) override {
    next_.scale_columns(x, rows, factors);
  }
  void clear(Rows x) override { next_.clear(x); }
  void soft_cap(Rows x, float cap) override { next_.soft_cap(x, cap); }
  bool has_xielu() const override { return next_.has_xielu(); }
  void xielu(Rows x, const Xielu& parameters) override { next_.xielu(x, parameters); }
  bool has_streams() const override { return next_.has_streams(); }
  void add_weighted_heads(Rows x, Rows y, Rows weights) override {
    next_.add_weighted_heads(x, y, weights);
  }
  void head_gates(Rows x, Rows y, Rows out) override { next_.head_gates(x, y, out); }
  void limit(Rows x, float most) override { next_.limit(x, most); }
  void stream_weights(Rows x, const StreamWeightShape& shape) override {
    next_.stream_weights(x, shape);
  }
  void match_magnitude(Rows x, Rows like) override { next_.match_magnitude(x, like); }
  void cut_off(Rows x, float cutoff) override { next_.cut_off(x, cutoff); }
  void gated_activation(Activation activation, Rows gate, Rows up, Rows out) override {
    next_.gated_activation(activation, gate, up, out);
  }
  void limited_silu(Rows gate, Rows up, float limit, Rows out) override {
    next_.limited_silu(gate, up, limit, out);
  }
  void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) override {
    next_.rope(x, head_dim, pairing, angles);
  }
  void change_basis(Rows x, const HeadBasis& basis) override { next_.change_basis(x, basis); }
  void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                  Rows out) override {
    next_.short_conv(shape, runs, x, out);
  }
  void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                   std::span<const float> biases) override {
    next_.state_gates(decay, rate, factors, biases);
  }
  void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, float length_eps, Rows out) override {
    next_.delta_rule(shape, runs, in, length_eps, out);
  }
  void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                   std::span<const float> biases) override {
    next_.state_steps(steps, decay, factors, biases);
  }
  void bounded_decays(Rows inputs, Rows decay, const DecayShape& shape) override {
    next_.bounded_decays(inputs, decay, shape);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) override {
    next_.state_space(shape, runs, in, skips, out);
  }
  void selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                      const ScanRows& in, Rows out) override {
    next_.selective_scan(weights, runs, in, out);
  }
  size_t page_bytes(const KvGeometry& geometry) const override {
    return next_.page_bytes(geometry);
  }
  void write_kv(const KvTarget& kv, Rows k, Rows v) override { next_.write_kv(kv, k, v); }
  void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) override {
    next_.attention(kv, shape, q, out);
  }
  bool has_indexer() const override { return next_.has_indexer(); }
  void write_index(const IndexTarget& to, Rows keys) override { next_.write_index(to, keys); }
  void select_tokens(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
                     uint32_t* tokens) override {
    next_.select_tokens(keys, shape, q, weights, tokens);
  }
  bool has_entries() const override { return next_.has_entries(); }
  void compress(const EntryShape& shape, std::span<const StateRun> runs,
                std::span<const uint32_t> positions, Rows x, Rows out) override {
    next_.compress(shape, runs, positions, x, out);
  }
  void write_entries(const EntryTarget& to, Rows entries) override {
    next_.write_entries(to, entries);
  }
  void attend_to_entries(const KvTarget& kv, const EntryTarget& entries,
                         const EntrySelection& selection, const AttentionShape& shape, Rows q,
                         Rows out) override {
    next_.attend_to_entries(kv, entries, selection, shape, q, out);
  }

 protected:
  Backend& next_;
};

}  // namespace kvik
