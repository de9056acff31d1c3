#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/forwarding_backend.h"
#include "format/importance.h"
#include "format/model_source.h"

namespace kvik {

// A source that knows what was read last.
class TracedSource final : public ModelSource {
 public:
  explicit TracedSource(ModelSource& source) : source_(source) {}

  struct Place {
    size_t tensor;
    uint64_t begin_byte;
  };
  const Place& last_read() const { return last_read_; }

  const std::string& label() const override { return source_.label(); }
  const Metadata& metadata() const override { return source_.metadata(); }
  std::span<const TensorInfo> tensors() const override { return source_.tensors(); }
  Result<std::span<const std::byte>> read(size_t index) override {
    return read_range(index, 0, tensors()[index].n_bytes);
  }
  Result<std::span<const std::byte>> read_range(size_t index, uint64_t begin_byte,
                                                uint64_t n_bytes) override {
    last_read_ = {index, begin_byte};
    return source_.read_range(index, begin_byte, n_bytes);
  }
  void release(size_t index) override { source_.release(index); }
  std::string name_in_file(size_t index) const override { return source_.name_in_file(index); }
  std::span<const uint32_t> gather(size_t index) const override { return source_.gather(index); }
  std::span<const float> scales(size_t index) const override { return source_.scales(index); }

 private:
  ModelSource& source_;
  Place last_read_{};
};

// A backend that hands every operation on to another one, and adds the inputs of each matrix
// product to the importance of the tensors that the matrix was packed from. The model and its
// decoder know nothing of it.
class InputRecorder final : public ForwardingBackend {
 public:
  // `source` is what the model is loaded from; it and `importance` are borrowed, the source until
  // loading is done.
  InputRecorder(std::unique_ptr<Backend> backend, const TracedSource& source,
                Importance& importance)
      : ForwardingBackend(*backend),
        backend_(std::move(backend)),
        source_(source),
        importance_(importance) {}

  Result<std::unique_ptr<PackedMatrix>> pack(std::span<const TensorView> stacked,
                                             const ReadRows& read) override;
  void matmul(Rows x, const PackedMatrix& w, Rows out) override;
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override;
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override;
  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override;
  // It wants to see which rows meet which expert.
  bool route(const RouteShape&, Rows) override { return false; }

 private:
  // What one of the stacked matrices is of: a tensor, or one of those that it is a stack of.
  struct Part {
    std::string tensor;
    uint64_t matrix;
  };

  // Of what was read last.
  void note_part(std::vector<Part>& parts);
  void record(Rows x, uint32_t row, std::span<const Part> parts);
  void record_all(Rows x, const PackedMatrix& w);

  std::unique_ptr<Backend> backend_;
  const TracedSource& source_;
  Importance& importance_;
  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::vector<float> row_;  // on the host
};

}  // namespace kvik
