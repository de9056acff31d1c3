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

// A backend that forwards every operation to another one and adds the inputs of each matrix product
// to the importance of the tensors from which the matrix was packed. The model and its decoder
// compute the same results as without it.
class InputRecorder final : public ForwardingBackend {
 public:
  // `source` is the source of the model. `source` and `importance` are borrowed, `source` until
  // loading is finished.
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
  // Returns false, so that the caller selects the experts and passes the rows of each to
  // grouped_matmul(), where this class records them.
  bool route(const RouteShape&, Rows) override { return false; }

 private:
  // The origin of one of the matrices packed together: a tensor, or one matrix of a stack of
  // experts.
  struct Part {
    std::string tensor;
    uint64_t matrix;
  };

  // Records the origin of the rows that were read last.
  void note_part(std::vector<Part>& parts);
  void record(Rows x, uint32_t row, std::span<const Part> parts);
  void record_all(Rows x, const PackedMatrix& w);

  std::unique_ptr<Backend> backend_;
  const ModelSource& source_;
  Importance& importance_;
  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::vector<float> row_;  // one row in host memory
};

}  // namespace kvik
