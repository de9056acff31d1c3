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

// A backend that hands every operation on to another one, and adds the inputs of each matrix
// product to the importance of the tensors that the matrix was packed from. The model and its
// decoder know nothing of it.
class InputRecorder final : public ForwardingBackend {
 public:
  // `source` is what the model is loaded from; it and `importance` are borrowed, the source until
  // loading is done.
  InputRecorder(std::unique_ptr<Backend> backend, const ModelSource& source, Importance& importance)
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
  const ModelSource& source_;
  Importance& importance_;
  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::vector<float> row_;  // on the host
};

}  // namespace kvik
