#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/ops.h"
#include "format/importance.h"
#include "format/model_source.h"

namespace kvik {

// A source that knows which tensor's bytes an address belongs to while they are read.
class TracedSource final : public ModelSource {
 public:
  explicit TracedSource(ModelSource& source) : source_(source) {}

  struct Place {
    std::string tensor;
    uint64_t offset_bytes;  // from its beginning
  };
  std::optional<Place> place_of(const std::byte* address) const;

  const std::string& label() const override { return source_.label(); }
  const Metadata& metadata() const override { return source_.metadata(); }
  std::span<const TensorInfo> tensors() const override { return source_.tensors(); }
  Result<std::span<const std::byte>> read(size_t index) override;
  void release(size_t index) override;
  std::string name_in_file(size_t index) const override { return source_.name_in_file(index); }
  std::span<const uint32_t> gather(size_t index) const override { return source_.gather(index); }

 private:
  ModelSource& source_;
  std::map<size_t, std::span<const std::byte>> lent_;  // by tensor
};

// A backend that hands every operation on to another one, and adds the inputs of each matrix
// product to the importance of the tensors that the matrix was packed from. The model and its
// decoder know nothing of it.
class InputRecorder final : public Backend {
 public:
  // `source` is what the model is loaded from; it and `importance` are borrowed, the source until
  // loading is done.
  InputRecorder(std::unique_ptr<Backend> backend, const TracedSource& source,
                Importance& importance)
      : backend_(std::move(backend)), source_(source), importance_(importance) {}

  std::string_view name() const override { return backend_->name(); }
  Memory& memory() override { return backend_->memory(); }
  uint32_t n_threads() const override { return backend_->n_threads(); }
  bool can_compute(ElementType type) const override { return backend_->can_compute(type); }
  std::string_view arithmetic(ElementType type) const override {
    return backend_->arithmetic(type);
  }
  Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked) override;
  uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) const override {
    return backend_->packed_bytes(type, n_rows, n_cols);
  }
  uint64_t scratch_bytes(const WorkLimits& limits) const override {
    return backend_->scratch_bytes(limits);
  }
  void reserve(const WorkLimits& limits) override { backend_->reserve(limits); }

  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override {
    backend_->embed(table, tokens, out);
  }
  void matmul(Rows x, const PackedMatrix& w, Rows out) override;
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override;
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override;

  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override;
  void copy_heads(const HeadRows& x, const HeadRows& out) override { backend_->copy_heads(x, out); }

  void add_weighted(Rows x, Rows y, const WeightedRows& terms) override {
    backend_->add_weighted(x, y, terms);
  }
  void rms_norm(Rows x, const float* weight, uint32_t weight_size, float eps, Rows out) override {
    backend_->rms_norm(x, weight, weight_size, eps, out);
  }
  void gather(Rows x, std::span<const uint32_t> rows, Rows out) override {
    backend_->gather(x, rows, out);
  }
  void add(Rows x, Rows y) override { backend_->add(x, y); }
  void add_bias(Rows x, const float* bias) override { backend_->add_bias(x, bias); }
  void scale(Rows x, float factor) override { backend_->scale(x, factor); }
  void add_grouped_bias(Rows x, const float* biases, const GroupedRows& groups) override {
    backend_->add_grouped_bias(x, biases, groups);
  }
  void scale_rows(Rows x, std::span<const float> factors) override {
    backend_->scale_rows(x, factors);
  }
  void soft_cap(Rows x, float cap) override { backend_->soft_cap(x, cap); }
  void gated_activation(Activation activation, Rows gate, Rows up, Rows out) override {
    backend_->gated_activation(activation, gate, up, out);
  }
  void rope(Rows x, uint32_t head_dim, RopePairing pairing, const RopeAngles& angles) override {
    backend_->rope(x, head_dim, pairing, angles);
  }
  void short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x,
                  Rows out) override {
    backend_->short_conv(shape, runs, x, out);
  }
  void l2_norm(Rows x, uint32_t head_dim, float eps, float scale) override {
    backend_->l2_norm(x, head_dim, eps, scale);
  }
  void state_gates(Rows decay, Rows rate, std::span<const float> factors,
                   std::span<const float> biases) override {
    backend_->state_gates(decay, rate, factors, biases);
  }
  void delta_rule(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, Rows out) override {
    backend_->delta_rule(shape, runs, in, out);
  }
  void state_steps(Rows steps, Rows decay, std::span<const float> factors,
                   std::span<const float> biases) override {
    backend_->state_steps(steps, decay, factors, biases);
  }
  void state_space(const RecurrenceShape& shape, std::span<const StateRun> runs,
                   const RecurrenceRows& in, std::span<const float> skips, Rows out) override {
    backend_->state_space(shape, runs, in, skips, out);
  }
  size_t page_bytes(const KvGeometry& geometry) const override {
    return backend_->page_bytes(geometry);
  }
  void write_kv(const KvTarget& kv, Rows k, Rows v) override { backend_->write_kv(kv, k, v); }
  void attention(const KvTarget& kv, const AttentionShape& shape, Rows q, Rows out) override {
    backend_->attention(kv, shape, q, out);
  }

 private:
  // What one of the stacked matrices is of: a tensor, or one of those that it is a stack of.
  struct Part {
    std::string tensor;
    uint64_t matrix;
  };

  void record(Rows x, uint32_t row, std::span<const Part> parts);
  void record_all(Rows x, const PackedMatrix& w);

  std::unique_ptr<Backend> backend_;
  const TracedSource& source_;
  Importance& importance_;
  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::vector<float> row_;  // on the host
};

}  // namespace kvik
