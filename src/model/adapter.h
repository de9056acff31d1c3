#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "catalogue/tensor_roles.h"
#include "model/model.h"

namespace kvik {

class AdapterSource;
struct AdapterPair;
struct LowRankFactors;

// What is added to the products of a model to make another model of it: changes of low rank of some
// of its matrices (Hu et al. 2021), packed. Immutable after loading.
class Adapter {
 public:
  // A change of one tensor's columns of a packed matrix, or of one matrix of a stack; two of them
  // where the columns come by turns (ProjectionSite).
  struct Part {
    std::unique_ptr<LowRankMatrix> matrix;
    uint32_t index = 0;  // in a stack
    uint32_t first_column = 0;
    // DoRA: what these columns of the product with w are multiplied by before the change is added,
    // in the backend's memory; the change has it in it. Null: nothing.
    const float* scales = nullptr;
  };
  // Of the embedding: token t's row gets up · tokens[t].
  struct Lookup {
    const PackedMatrix* table;
    std::vector<float> tokens;          // [n_vocab, rank], on the host
    std::unique_ptr<LowRankMatrix> up;  // [model_dim, rank], behind an identity
    uint32_t rank() const { return up->rank(); }
  };

  // Reads and packs all of it. Beside the engine, on any thread. `base` is what the model was
  // loaded from, and only read where needs_base(). Errors: those of AdapterSource::read() and
  // dora_scales(), and kInvalidArgument for a tensor that the model does not have.
  static Result<std::unique_ptr<Adapter>> load(AdapterSource& source, const Model& model,
                                               Backend& backend, ModelSource* base = nullptr);
  // bytes() of what load() would give for a model of that config.
  static uint64_t bytes_of(const AdapterSource& source, const ModelConfig& config,
                           const Backend& backend);

  // Of all matrices that a product with w is changed by, in ascending order of the index.
  std::span<const Part> at(const PackedMatrix& w) const {
    const auto found = parts_.find(&w);
    return found == parts_.end() ? std::span<const Part>() : found->second;
  }
  // Whether a product with w is scaled (Part::scales).
  bool scales(const PackedMatrix& w) const {
    return std::ranges::any_of(at(w), [](const Part& part) { return part.scales != nullptr; });
  }
  // Null where the embedding stays as it is.
  const Lookup* embedding() const { return embedding_.get(); }

  uint64_t bytes() const { return bytes_; }
  uint32_t rank() const { return rank_; }  // the highest
  uint32_t n_pairs() const { return n_pairs_; }
  // SHA-256 of all that it changes, in 64 hexadecimal digits: the same for the same numbers,
  // whatever the kind of file.
  const std::string& digest() const { return digest_; }
  // What parts its pages from those of the model without it: the digest, or nothing where it leaves
  // all that is remembered of tokens as it is (leaves_kv_alone()).
  const std::string& cache_mark() const { return cache_mark_; }

 private:
  Adapter() = default;

  static uint64_t packed_bytes_of(const AdapterSource& source, const ModelConfig& config,
                                  const Backend& backend);
  std::unique_ptr<LowRankMatrix> pack(const LowRankView& change, Backend& backend);
  void add_embedding(const AdapterPair& pair, LowRankFactors factors, const PackedMatrix& table,
                     Backend& backend);
  void add(const AdapterPair& pair, const LowRankFactors& factors, std::span<const float> scales,
           const ProjectionSite& site, Backend& backend);
  // Copies them to packed_; null where there are none.
  const float* pack_scales(std::span<const float> scales, Backend& backend);

  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::unique_ptr<Lookup> embedding_;
  uint64_t bytes_ = 0;
  Buffer packed_;  // all matrices, one behind the other
  uint64_t n_packed_ = 0;
  uint32_t rank_ = 0;
  uint32_t n_pairs_ = 0;
  std::string digest_, cache_mark_;
};

// Whether a change of that tensor leaves K and V, and the states, of every layer as they are: that
// of the head, and in the last layer that of what comes behind K and V, or behind the state.
bool leaves_kv_alone(TensorId tensor, const ModelConfig& config);

}  // namespace kvik
