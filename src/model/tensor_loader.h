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
#include "model/row_table.h"

namespace kvik {

// Reads tensors from a source by role, checks their shapes, packs them and releases them in the
// source. Skips roles that the model of `table` does not have; if none is left, the result is
// empty. Lives for one load.
//
// Errors: kCorrupt for a missing tensor, a wrong shape or a number that is not finite, kUnsupported
// for an unknown tensor or element type; each names the tensor.
class TensorLoader {
 public:
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;
  using Roles = std::initializer_list<TensorRole>;

  TensorLoader(ModelSource& source, Backend& backend, const TensorTable& table,
               const Progress& progress);

  bool has(TensorId tensor) const { return source_.find(name_of(tensor)).has_value(); }
  bool has(TensorRole role) const { return has(TensorId{role}); }

  // Checks that a layer has all or none of these optional tensors. Errors: kCorrupt otherwise.
  Result<void> check_all_or_none(Roles roles, uint32_t layer) const;

  // Returns all elements of a tensor.
  Result<std::vector<float>> floats(TensorId tensor);
  // Returns the concatenation of vectors as f32, in the backend's memory or on the host.
  Result<Buffer> vectors(Roles roles, uint32_t layer = 0);
  Result<std::vector<float>> host_vectors(Roles roles, uint32_t layer = 0);
  // Returns one vector per expert and role: those of the first expert, then those of the second, as
  // experts() orders matrices.
  Result<Buffer> expert_vectors(Roles roles, uint32_t layer);
  // Returns matrices stacked along their rows and packed together. A vector counts as one row.
  Result<std::unique_ptr<PackedMatrix>> matrix(Roles roles, uint32_t layer = 0) {
    return matrix(roles, layer, {});
  }
  // Returns a table of rows that are looked up, which stays in `file` if that is not null. `file`
  // is then the source of this loader. Reads all rows either way, to check and to hash them.
  Result<std::unique_ptr<RowTable>> row_table(TensorRole role, std::shared_ptr<ModelSource> file);
  // Describes a role whose rows alternate between blocks of two kinds. Blocks of the first kind are
  // packed in the role's place, those of the second kind after all other rows.
  struct Turns {
    TensorRole role{};
    uint32_t block_rows = 0;  // 0: no role has such rows
  };
  Result<std::unique_ptr<PackedMatrix>> matrix(Roles roles, uint32_t layer, Turns turns);
  // Returns stacks of matrices packed together: those of the first expert for each role, then those
  // of the second.
  Result<std::unique_ptr<PackedMatrix>> experts(Roles roles, uint32_t layer);

  // Returns the n_parts parts of the rows of one matrix as a stack; null if the layer has none.
  Result<std::unique_ptr<PackedMatrix>> parts_of_rows(Roles roles, uint32_t layer,
                                                      uint32_t n_parts);
  // Returns integers, of which each must be less than `end`. The model must have the tensor.
  Result<std::vector<uint32_t>> numbers(TensorId tensor, uint32_t end);

  // Locations of all matrices packed so far.
  const std::map<TensorId, ProjectionSite>& sites() const { return sites_; }

  // Checks that every tensor of the source was read, apart from those that may be left alone: a
  // file with further tensors needs computations that are not implemented. Errors: kUnsupported.
  Result<void> check_all_taken(std::string_view architecture) const;

  uint64_t weight_bytes() const { return weight_bytes_; }
  void add_weight_bytes(uint64_t n_bytes) { weight_bytes_ += n_bytes; }
  // Copies values to the backend's memory; returns an empty buffer if there are none.
  Buffer keep(const std::vector<float>& values);
  const std::set<std::string_view>& arithmetics() const { return arithmetics_; }
  std::string fingerprint() { return fingerprint_.finish(); }

 private:
  // Returns the specs of those roles that the model has.
  std::vector<const TensorSpec*> specs_of(Roles roles, uint32_t layer) const;
  // Returns the index of the tensor in the source after checking its shape.
  Result<size_t> take(const TensorSpec& spec);
  // Checks that the backend can compute with the tensor's type, and records the arithmetic of that
  // type.
  Result<void> check_computable(size_t index);
  // Checks that no block of these rows has a scale that its type reserves for NaN.
  Result<void> check_scales(const TensorView& view, size_t index) const;
  // Returns the error with the name of its tensor at the beginning.
  std::unexpected<Error> name_tensor(const Error& error, size_t index) const;
  // Rows of a tensor that form one of the matrices that are packed together.
  struct Matrix {
    size_t index;
    uint64_t first_row;  // first row within the tensor
    uint64_t slice;      // slice of the tensor, which may have a scale of its own
    TensorView view;     // shape and type; has no bytes
    // If not 0, the tensor's rows alternate between blocks of two kinds. first_row then counts all
    // rows of the first kind before those of the second.
    uint32_t block_rows = 0;
    uint64_t n_rows_of_kind = 0;
  };
  Result<Matrix> matrix_of(const TensorSpec& spec);
  Result<TensorView> read_rows(const Matrix& matrix, uint64_t first, uint64_t n);
  Result<std::span<const std::byte>> read_alternating(const Matrix& matrix, uint64_t first,
                                                      uint64_t n);
  // Requirement on the column order of the matrices of one pack: any order for each, or one for
  // all.
  enum class Orders : uint8_t { kAny, kOne };
  // Packs the rows of a matrix part by part, without keeping them, and adds their hash.
  Result<void> check_rows(const Matrix& matrix);
  // Packs the matrices and releases their tensors.
  Result<std::unique_ptr<PackedMatrix>> pack(const std::vector<Matrix>& matrices, Orders orders);
  void record_sites(const PackedMatrix& matrix, const std::vector<const TensorSpec*>& specs,
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
  std::vector<std::byte> alternating_rows_;  // result of the last read_alternating()
  uint64_t weight_bytes_ = 0;
  uint64_t all_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

}  // namespace kvik
