#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "model/bases/key_statistics.h"
#include "model/layer_groups.h"
#include "model/projection_site.h"
#include "model/recurrent/recurrent_weights.h"
#include "tensor/kv_type.h"

namespace kvik {

class ModelSource;

// How the K and V of a layer group lie in its pages.
KvGeometry kv_geometry(const LayerGroups& groups, uint32_t group, KvType type);
// Of a page of such a model, which serves any of its groups.
size_t page_bytes(const ModelConfig& config, KvType type, const Backend& backend);

// Of latent attention, with AttentionWeights::qkv: x to q or its low rank, over the latent vector
// and what turns.
struct LatentWeights {
  Buffer q_norm;                       // [q_rank]
  std::unique_ptr<PackedMatrix> q_up;  // [n_heads · q_dim, q_rank]
  Buffer kv_norm;                      // [rank]
  std::unique_ptr<PackedMatrix> k_up;  // n_heads times [rank, still_dim]
  std::unique_ptr<PackedMatrix> v_up;  // n_heads times [value_dim, rank]
};

// The weights of one layer. What its config does not name is empty.
struct AttentionWeights {
  Buffer norm;  // [model_dim]
  // [q_dim + 2 · kv_dim + gate_dim, model_dim], without what is not there
  std::unique_ptr<PackedMatrix> qkv;
  Buffer qkv_bias;        // [q_dim + 2 · kv_dim]
  Buffer q_norm, k_norm;  // [head_dim], or [q_dim] and [kv_dim]
  LatentWeights latent;
  Buffer sinks;                          // [n_heads]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, q_dim]
  Buffer output_bias;                    // [model_dim]
  Buffer post_norm;                      // [model_dim]
};

// Of what a layer has for each token beside its input (ModelConfig::per_layer_dim).
struct PerLayerWeights {
  std::unique_ptr<PackedMatrix> gate;    // [per_layer_dim, model_dim]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, per_layer_dim]
  Buffer post_norm;                      // [model_dim]
};

// The same of the whole model.
struct PerLayerEmbedding {
  std::unique_ptr<PackedMatrix> table;       // [n_vocab, n_layers · per_layer_dim]
  std::unique_ptr<PackedMatrix> projection;  // [n_layers · per_layer_dim, model_dim]
  Buffer norm;                               // [per_layer_dim]
};

struct FeedForwardWeights {
  Buffer norm;  // [model_dim]
  // Of an activation without a gate, these are the ups alone: [ffn_dim, model_dim].
  std::unique_ptr<PackedMatrix> gate_up;         // [2 · ffn_dim, model_dim], of an MLP or of what
  std::unique_ptr<PackedMatrix> down;            // [model_dim, ffn_dim]      all experts share
  Buffer gate_up_bias;                           // [2 · ffn_dim], of an MLP
  Buffer down_bias;                              // [model_dim], likewise
  std::unique_ptr<PackedMatrix> router;          // [ExpertRouter::n_columns(), model_dim]
  Buffer score_bias;                             // [n_experts]
  std::vector<float> choice_bias;                // [n_experts], on the host
  std::unique_ptr<PackedMatrix> expert_gate_up;  // n_experts times [2 · ffn_dim, model_dim]
  Buffer expert_gate_up_bias;                    // n_experts times [2 · ffn_dim]
  std::unique_ptr<PackedMatrix> expert_down;     // n_experts times [model_dim, ffn_dim]
  Buffer expert_down_bias;                       // n_experts times [model_dim]
  Buffer post_norm;                              // [model_dim]
  // Of experts beside an MLP (ExpertsConfig::beside_ffn_dim).
  Buffer router_norm, experts_norm, mlp_post_norm, experts_post_norm;  // [model_dim] each
  std::vector<float> expert_factors;                                   // [n_experts], on the host
};

// What the guesser has beside a layer's weights (guesser_block.h).
struct GuesserWeights {
  Buffer embedding_norm, hidden_norm, output_norm;  // [model_dim]
  std::unique_ptr<PackedMatrix> input;              // [model_dim, 2 · model_dim]
};

struct LayerWeights {
  AttentionWeights attention;  // of a layer that attends; else of one that does not:
  RecurrentWeights recurrent;
  FeedForwardWeights feed_forward;
  PerLayerWeights per_layer;
  float scale = 1.0f;  // of the rows behind the layer
};

// Options of Model::load().
struct LoadOptions {
  // The context that will be served, by which some models choose their rotation frequencies; 0: as
  // trained.
  uint32_t n_ctx_max = 0;
  // The type of pages that decoders will have. K is measured if it is quantized, and a decoder of
  // such pages needs that.
  KvType kv_type = KvType::kInt8;
};

// A loaded model: config and packed weights. Immutable after loading.
class Model {
 public:
  // Bytes of source tensors packed so far, and of all of them.
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  // Packs every tensor of the source and releases it there. Every tensor must be wanted and every
  // wanted one be there, in its shape. Errors: those of read_config, kCorrupt for a missing tensor
  // or a wrong shape, kUnsupported for an unknown tensor or element type; each names the tensor.
  static Result<std::unique_ptr<Model>> load(ModelSource& source, Backend& backend,
                                             const Progress& progress, const LoadOptions& options);
  static Result<std::unique_ptr<Model>> load(ModelSource& source, Backend& backend,
                                             const Progress& progress) {
    return load(source, backend, progress, LoadOptions());
  }

  const ModelConfig& config() const { return config_; }
  const PackedMatrix& embedding() const { return *embedding_; }
  // Those of ModelConfig::layers.
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const GuesserWeights& guesser() const { return guesser_; }
  const PerLayerEmbedding& per_layer() const { return per_layer_; }
  const Buffer& output_norm() const { return output_norm_; }
  // The embedding again where the model ties them.
  const PackedMatrix& head() const { return head_ ? *head_ : *embedding_; }
  // Divisors of the rotation frequencies, one per pair; empty where the file has none (Llama 3.1,
  // Phi-3).
  const std::vector<float>& rope_divisors() const { return rope_divisors_; }

  uint64_t weight_bytes() const { return weight_bytes_; }
  // Of the metadata, the tensor table and all tensors' bytes: 64 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  // Names the code and the arithmetic that K and V are computed with (fingerprint.h).
  const std::string& numerics() const { return numerics_; }
  // Returns the statistics that the bases of int8 and int4 pages are made from. They are empty if
  // the model was loaded for other pages, or keeps no heads.
  const KeyStatistics& key_statistics() const { return key_statistics_; }
  // Of each matrix that products are made with; a tied head has one, too.
  const std::map<TensorId, ProjectionSite>& sites() const { return sites_; }
  // Of its matrices, each once.
  const std::vector<WeightKind>& weight_kinds() const { return weight_kinds_; }

 private:
  friend class ModelLoader;
  Model() = default;

  ModelConfig config_;
  std::unique_ptr<PackedMatrix> embedding_;
  std::unique_ptr<PackedMatrix> head_;
  std::vector<LayerWeights> layers_;
  GuesserWeights guesser_;
  PerLayerEmbedding per_layer_;
  Buffer output_norm_;
  std::vector<float> rope_divisors_;
  uint64_t weight_bytes_ = 0;
  std::vector<WeightKind> weight_kinds_;
  std::map<TensorId, ProjectionSite> sites_;
  std::string fingerprint_, numerics_;
  KeyStatistics key_statistics_;
};

}  // namespace kvik
