#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "format/model_source.h"
#include "model/fingerprint.h"

namespace kvik {

// Takes tensors out of a source by name, checks their shapes, packs them and releases them there.
// Lives for one load. Errors: kCorrupt for a missing tensor or a wrong shape, kUnsupported for an
// unknown tensor or element type; each names the tensor.
class TensorLoader {
 public:
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  TensorLoader(ModelSource& source, Backend& backend, const Progress& progress);

  struct Part {
    std::string name;
    uint32_t n_rows;
  };

  bool has(const std::string& name) const { return source_.find(name).has_value(); }

  Result<std::vector<float>> floats(const Part& part);
  Result<Buffer> vector(std::string name, uint32_t n) { return vectors({{std::move(name), n}}); }
  // Vectors one behind the other, as f32.
  Result<Buffer> vectors(const std::vector<Part>& parts);

  // Matrices stacked along their rows, packed together. One row may be a vector in the source.
  Result<std::unique_ptr<PackedMatrix>> matrix(const std::vector<Part>& parts, uint32_t n_cols);
  // Tensors [n_experts, n_rows, n_cols], packed expert by expert: the first one's matrix of each
  // part, then the second's.
  Result<std::unique_ptr<PackedMatrix>> experts(const std::vector<Part>& parts, uint32_t n_experts,
                                                uint32_t n_cols);

  // A tensor that nothing asked for means that the file holds more than we compute.
  Result<void> check_all_taken(std::string_view architecture) const;

  uint64_t weight_bytes() const { return weight_bytes_; }
  void add_weight_bytes(uint64_t n_bytes) { weight_bytes_ += n_bytes; }
  const std::set<std::string_view>& arithmetics() const { return arithmetics_; }
  std::string fingerprint() { return fingerprint_.finish(); }

 private:
  Result<size_t> take(const std::string& name, std::initializer_list<uint64_t> shape);
  // Also notes the arithmetic that its type asks for.
  Result<void> check_computable(size_t index);
  Result<std::unique_ptr<PackedMatrix>> pack(const std::vector<TensorView>& views,
                                             const std::vector<size_t>& indices);
  void done(size_t index);

  ModelSource& source_;
  Backend& backend_;
  const Progress& progress_;
  Fingerprint fingerprint_;
  std::set<std::string_view> arithmetics_;
  std::vector<bool> taken_;
  uint64_t weight_bytes_ = 0;
  uint64_t all_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

}  // namespace kvik
