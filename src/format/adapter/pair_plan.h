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

// Which matrix a file's pair is for.
struct AdapterTarget {
  TensorId tensor;                    // kKvUp: both of the stacks of heads that it is parted into
  std::optional<uint32_t> part = {};  // of a stack, this one; else all, where it is a stack
};

// How a file holds the embedding's pair.
enum class EmbeddingPair : uint8_t {
  kPeft,  // a: [rank, n_vocab], b: [model_dim, rank]
  kGguf,  // a: [n_vocab, rank], b: [model_dim, rank]
};

// A folder's one tensor of the matrices of all experts: its pair lies flat, a: [n_experts · rank,
// inputs] and b: [outputs, rank · n_experts], the expert fastest; or a has the outputs and b the
// inputs.
struct FlatStack {
  uint32_t part = 0, n_parts = 1;  // which of the model's tensors that lie in it
  bool takes_turns = false;        // row 0 of each part, then row 1; else a part above the next
  bool is_flipped = false;         // a has the outputs, where shapes do not tell
};

// What a file says of the change of one matrix, before it is compared with the model.
struct StatedPair {
  std::string name;  // of the matrix in the file, for messages
  AdapterTarget target;
  size_t a = 0, b = 0;  // tensors of the file
  Module module = {};   // of a folder; without roles: the target as GGUF files have it
  EmbeddingPair embedding = EmbeddingPair::kPeft;
  std::optional<FlatStack> flat = {};
  std::optional<size_t> magnitudes = {};  // of DoRA: a tensor of a number for each row
};

// Puts together what a file changes, checked against the shapes of a model. Lives for one opening.
class PairPlan {
 public:
  // Both are borrowed.
  PairPlan(const ModelSource& file, const ModelConfig& model);
  ~PairPlan();

  // The rank that the two tensors agree on. Errors: kCorrupt, kUnsupported, also where the target
  // is no matrix.
  Result<uint32_t> rank_of(const StatedPair& pair) const;

  // Error: kInvalidArgument where the model has no such matrix, or of another shape; kCorrupt where
  // one was added for it before.
  Result<void> add(const StatedPair& pair, uint32_t rank, float scale);

  // A tensor of the file in the place of the embedding or the head. Errors: kInvalidArgument for
  // another shape, kUnsupported for another type than f32, f16 and bf16.
  Result<void> add_saved(TensorId target, size_t tensor);

  // Error: kCorrupt where there is neither a pair nor a saved tensor.
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

  Result<void> add_whole(const StatedPair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_embedding(const StatedPair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_stack(const StatedPair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_flat_stack(const StatedPair& pair, const TensorSpec& spec, AdapterPair made);
  Result<void> add_latent(const StatedPair& pair, AdapterPair made);
  Result<uint64_t> flat_rank_of(const StatedPair& pair) const;
  Result<void> add_magnitudes(const StatedPair& pair, size_t first_planned);
  Result<void> check_shapes(const StatedPair& pair, const std::vector<uint64_t>& a,
                            const std::vector<uint64_t>& b) const;

  const ModelSource& file_;
  const ModelConfig& model_;
  TensorTable table_;
  std::vector<Planned> planned_;
  std::vector<Saved> saved_;
};

}  // namespace kvik
