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
class TensorLoader;
struct AdapterPair;
struct LowRankFactors;

// A LoRA adapter: low-rank changes of some of a model's matrices (Hu et al. 2021), packed.
// Immutable after loading.
class Adapter {
 public:
  // Change of one tensor's columns in a packed matrix, or in one matrix of a stack. A tensor whose
  // rows alternate between two kinds (ProjectionSite) has two parts.
  struct Part {
    std::unique_ptr<LowRankMatrix> matrix;
    uint32_t index = 0;  // index of the matrix in a stack
    uint32_t first_column = 0;
    // DoRA: factors of these columns of the product, applied before the change is added, in the
    // backend's memory. The change already includes them. Null: not scaled.
    const float* scales = nullptr;
  };
  // Change of the embedding: up · tokens[t] is added to the row of token t.
  struct Lookup {
    const PackedMatrix* table;
    std::vector<float> tokens;          // [n_vocab, rank], on the host
    std::unique_ptr<LowRankMatrix> up;  // [model_dim, rank], with the identity as its `a`
    uint32_t rank() const { return up->rank(); }
  };

  // Reads and packs the whole adapter. May run on any thread, in parallel with the engine. `base`
  // is the source that the model was loaded from; it is read only if needs_base(). Errors: those of
  // AdapterSource::read() and dora_scales(), kUnsupported for an adapter that replaces tensors,
  // kExhausted if the backend has too little memory, and kInvalidArgument for a tensor that the
  // model does not have.
  static Result<std::unique_ptr<Adapter>> load(AdapterSource& source, const Model& model,
                                               Backend& backend, ModelSource* base = nullptr);
  // Reads and packs the adapters of the model's own file (ModelConfig::adapter_switch). The first
  // of the stacked ones is of rows without an adapter, and unused. Errors: those of TensorLoader,
  // and kCorrupt if a change has only one factor.
  static Result<std::vector<std::unique_ptr<Adapter>>> load_own(TensorLoader& tensors,
                                                                const ModelConfig& config,
                                                                Backend& backend);
  // Returns the bytes that the adapters of load_own() take together. Error: kCorrupt, as there.
  static Result<uint64_t> own_bytes(const ModelSource& source, const ModelConfig& config,
                                    const Backend& backend);

  // Returns bytes() of the adapter that load() would return for a model of that config.
  static uint64_t bytes_of(const AdapterSource& source, const ModelConfig& config,
                           const Backend& backend);

  // Returns the parts that change a product with w, in ascending order of their index.
  std::span<const Part> at(const PackedMatrix& w) const {
    const auto found = parts_.find(&w);
    return found == parts_.end() ? std::span<const Part>() : found->second;
  }
  // Returns whether a product with w is scaled (Part::scales).
  bool scales(const PackedMatrix& w) const {
    return std::ranges::any_of(at(w), [](const Part& part) { return part.scales != nullptr; });
  }
  // Change of the embedding; null if there is none.
  const Lookup* embedding() const { return embedding_.get(); }

  uint64_t bytes() const { return bytes_; }
  uint32_t rank() const { return rank_; }  // highest rank of all pairs
  uint32_t n_pairs() const { return n_pairs_; }
  // SHA-256 of all changes in 64 hexadecimal digits. The same numbers give the same digest,
  // whatever the file format.
  const std::string& digest() const { return digest_; }
  // Separates the adapter's cached pages from those of the base model: the digest, or empty if the
  // adapter changes neither K and V nor recurrent states (keeps_kv_unchanged()), so that it shares
  // them with the base model.
  const std::string& cache_key_suffix() const { return cache_key_suffix_; }

 private:
  Adapter() = default;

  static uint64_t packed_bytes_of(const AdapterSource& source, const ModelConfig& config,
                                  const Backend& backend);
  std::unique_ptr<LowRankMatrix> pack(const LowRankView& change, Backend& backend);
  void add_embedding(const AdapterPair& pair, LowRankFactors factors, const PackedMatrix& table,
                     Backend& backend);
  void add(const AdapterPair& pair, const LowRankFactors& factors, std::span<const float> scales,
           const ProjectionSite& site, Backend& backend);
  // Copies the scales to packed_; returns null if there are none.
  const float* pack_scales(std::span<const float> scales, Backend& backend);

  std::map<const PackedMatrix*, std::vector<Part>> parts_;
  std::unique_ptr<Lookup> embedding_;
  uint64_t bytes_ = 0;
  Buffer packed_;  // all matrices and scales, in one piece
  uint64_t n_packed_ = 0;
  uint32_t rank_ = 0;
  uint32_t n_pairs_ = 0;
  std::string digest_, cache_key_suffix_;
};

// Returns whether a change of that tensor leaves K, V and the recurrent states of every layer
// unchanged. This holds for the head, and in the last layer for the tensors that are used only
// after K and V, or after the state, were computed.
bool keeps_kv_unchanged(TensorId tensor, const ModelConfig& config);

}  // namespace kvik
