#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/adapter/module_order.h"
#include "format/model_source.h"

namespace kvik {

// The matrix that a pair of the file updates.
struct AdapterTarget {
  TensorId tensor;                    // kKvUp: both stacks of heads into which it is split
  std::optional<uint32_t> part = {};  // one matrix of a stack; std::nullopt: all of a stack
};

// Layout of the embedding's pair in a file.
enum class EmbeddingPair : uint8_t {
  kPeft,  // a: [rank, n_vocab], b: [model_dim, rank]
  kGguf,  // a: [n_vocab, rank], b: [model_dim, rank]
};

// A tensor of a folder with the matrices of all experts. Its pair has two axes: a is [n_experts ·
// rank, inputs], and b is [outputs, rank · n_experts] with the expert fastest. In a flipped pair, a
// has the outputs and b the inputs.
struct FlatStack {
  uint32_t part = 0, n_parts = 1;  // which of the model's tensors in the stack, and their number
  bool is_alternating = false;     // the rows of the parts alternate
  bool is_flipped = false;         // a has the outputs; used if the shapes fit both ways
};

// The update of one matrix as stated by a file, before it is checked against the model.
struct FilePair {
  std::string name;  // name of the matrix in the file, for messages
  AdapterTarget target;
  size_t a = 0, b = 0;  // indices of tensors of the file
  Module module = {};   // module of a folder; no roles: the layout of GGUF files
  EmbeddingPair embedding = EmbeddingPair::kPeft;
  std::optional<FlatStack> flat = {};
  std::optional<size_t> magnitudes = {};  // DoRA: index of a tensor with a number per row
};

// Collects the updates that a file contains, and checks them against the shapes of a model. Used by
// one thread while the file is opened.
class PairPlan {
 public:
  // Borrows both.
  PairPlan(const ModelSource& file, const ModelConfig& model);
  ~PairPlan();

  // Returns the common rank of the two tensors. Errors: kCorrupt, kUnsupported, also if the target
  // is not a matrix.
  Result<uint32_t> rank_of(const FilePair& pair) const;

  // Adds a pair. Pairs of the MTP head and of tensors that the model does not use are ignored.
  // Errors: kInvalidArgument if the model has no such matrix or one of another shape, kCorrupt for
  // a scale that is not finite or for magnitudes of another shape, kUnsupported for DoRA of a kind
  // of matrix that is not supported.
  Result<void> add(const FilePair& pair, uint32_t rank, float scale);

  // Adds a tensor of the file that replaces the embedding or the head. Errors: kInvalidArgument for
  // another shape, kUnsupported for a type other than f32, f16 and bf16.
  Result<void> add_saved(TensorId target, size_t tensor);

  // Returns the adapter with all pairs and saved tensors. Errors: kCorrupt if there are none, if
  // two pairs update the same matrix, or if a saved tensor replaces a matrix that a pair or another
  // saved tensor changes.
  Result<std::unique_ptr<AdapterSource>> finish(std::unique_ptr<ModelSource> file,
                                                std::string label, std::string base_name);

  const TensorTable& table() const { return table_; }

 private:
  struct Planned;
  struct Saved {
    SavedTensor tensor;
    size_t in_file;
  };
  class Source;

  Result<void> add_whole(const FilePair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_embedding(const FilePair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_stack(const FilePair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_groups(const FilePair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_flat_stack(const FilePair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_latent(const FilePair& pair, AdapterPair made);
  Result<uint64_t> flat_rank_of(const FilePair& pair) const;
  Result<void> add_magnitudes(const FilePair& pair, size_t first_planned);
  Result<void> check_saved() const;
  Result<void> check_shapes(const FilePair& pair, const std::vector<uint64_t>& a,
                            const std::vector<uint64_t>& b) const;

  const ModelSource& file_;
  const ModelConfig& model_;
  TensorTable table_;
  std::vector<Planned> planned_;
  std::vector<Saved> saved_;
};

}  // namespace kvik
