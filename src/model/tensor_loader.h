#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "catalogue/tensor_roles.h"
#include "format/model_source.h"
#include "model/fingerprint.h"
#include "model/projection_site.h"

namespace kvik {

// Takes tensors out of a source by role, checks their shapes, packs them and releases them there.
// Roles that the model of `table` does not have are nothing: the outcome is empty. Lives for one
// load. Errors: kCorrupt for a missing tensor or a wrong shape, kUnsupported for an unknown tensor
// or element type; each names the tensor.
class TensorLoader {
 public:
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;
  using Roles = std::initializer_list<TensorRole>;

  TensorLoader(ModelSource& source, Backend& backend, const TensorTable& table,
               const Progress& progress);

  bool has(TensorId tensor) const { return source_.find(name_of(tensor)).has_value(); }
  bool has(TensorRole role) const { return has(TensorId{role}); }

  // Optional tensors that only make sense together. Errors: kCorrupt for one that is missing beside
  // another.
  Result<void> check_all_or_none(Roles roles, uint32_t layer) const;

  // All elements of a tensor.
  Result<std::vector<float>> floats(TensorId tensor);
  // Vectors one behind the other, as f32.
  Result<Buffer> vectors(Roles roles, uint32_t layer = 0);
  Result<std::vector<float>> host_vectors(Roles roles, uint32_t layer = 0);
  // A vector for each expert, expert by expert as experts() has it.
  Result<Buffer> expert_vectors(Roles roles, uint32_t layer);
  // Matrices stacked along their rows, packed together. A vector is one row.
  Result<std::unique_ptr<PackedMatrix>> matrix(Roles roles, uint32_t layer = 0) {
    return matrix(roles, layer, {});
  }
  // The same where the rows of one role come in blocks of two kinds by turns: blocks of the first
  // kind stand where the role does, those of the second after all others.
  struct Turns {
    TensorRole role{};
    uint32_t block_rows = 0;  // 0: no role's do
  };
  Result<std::unique_ptr<PackedMatrix>> matrix(Roles roles, uint32_t layer, Turns turns);
  // Stacks of matrices, packed expert by expert: the first one's of each role, then the second's.
  Result<std::unique_ptr<PackedMatrix>> experts(Roles roles, uint32_t layer);

  // Where the matrices packed so far lie.
  const std::map<TensorId, ProjectionSite>& sites() const { return sites_; }

  // A tensor that nothing asked for means that the file holds more than we compute.
  Result<void> check_all_taken(std::string_view architecture) const;

  uint64_t weight_bytes() const { return weight_bytes_; }
  void add_weight_bytes(uint64_t n_bytes) { weight_bytes_ += n_bytes; }
  // Host values in the backend's memory; none: an empty buffer.
  Buffer keep(const std::vector<float>& values);
  const std::set<std::string_view>& arithmetics() const { return arithmetics_; }
  std::string fingerprint() { return fingerprint_.finish(); }

 private:
  // Those of the roles that the model has.
  std::vector<const TensorSpec*> specs_of(Roles roles, uint32_t layer) const;
  // The index of the tensor in the source, where it has the shape that it must.
  Result<size_t> take(const TensorSpec& spec);
  // Also notes the arithmetic that its type asks for.
  Result<void> check_computable(size_t index);
  // Of a type some of whose scales are no numbers.
  Result<void> check_scales(const TensorView& view, size_t index) const;
  // Rows of a tensor that are one of those that are packed together.
  struct Matrix {
    size_t index;
    uint64_t first_row;  // of all of the tensor's
    uint64_t slice;      // of the tensor, whose scale it has
    TensorView view;     // without bytes
    // Rows may come in blocks of two kinds by turns: then first_row counts all rows of the first
    // kind before those of the second.
    uint32_t block_rows = 0;
    uint64_t n_rows_of_kind = 0;
  };
  Result<Matrix> matrix_of(const TensorSpec& spec);
  Result<TensorView> read_rows(const Matrix& matrix, uint64_t first, uint64_t n);
  Result<std::span<const std::byte>> read_by_turns(const Matrix& matrix, uint64_t first,
                                                   uint64_t n);
  // Which columns the matrices of a product may have at one place.
  enum class Orders : uint8_t { kAny, kOne };
  // Releases the tensors.
  Result<std::unique_ptr<PackedMatrix>> pack(const std::vector<Matrix>& matrices, Orders orders);
  void note_sites(const PackedMatrix& matrix, const std::vector<const TensorSpec*>& specs,
                  Turns turns);
  void done(size_t index);

  ModelSource& source_;
  Backend& backend_;
  const TensorTable& table_;
  const Progress& progress_;
  Fingerprint fingerprint_;
  std::set<std::string_view> arithmetics_;
  std::vector<bool> taken_;
  std::map<TensorId, ProjectionSite> sites_;
  std::vector<std::byte> rows_by_turns_;  // of the newest read
  uint64_t weight_bytes_ = 0;
  uint64_t all_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

}  // namespace kvik
