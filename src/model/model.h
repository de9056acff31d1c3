#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "model/bases/key_statistics.h"
#include "model/latent/query_scaling.h"
#include "model/layer_groups.h"
#include "model/projection_site.h"
#include "model/recurrent/recurrent_weights.h"
#include "model/row_table.h"
#include "tensor/kv_type.h"

namespace kvik {

class Adapter;

class ModelSource;

// Returns the layout of K and V in the pages of a layer group.
KvGeometry kv_geometry(const LayerGroups& groups, uint32_t group, KvType type);
// Returns the bytes of K and V in one page that is large enough for every layer group.
size_t kv_page_bytes(const ModelConfig& config, KvType type, const Backend& backend);

// Place of the hidden state that the MTP head needs of a page's newest token: after K, V and index
// keys in the pages of one layer group.
struct MtpHiddenPlace {
  uint32_t group = 0;
  uint64_t offset = 0;
  uint64_t n_bytes = 0;
};
// Returns std::nullopt if the model has no MTP head, or keeps it in recurrent states (StateLayout).
std::optional<MtpHiddenPlace> mtp_hidden_place(const ModelConfig& config, KvType type,
                                               const Backend& backend);
// Returns the bytes of one page: K and V, index keys, and the hidden state for the MTP head.
size_t page_bytes(const ModelConfig& config, KvType type, const Backend& backend);

// Weights of multi-head latent attention (MLA) that AttentionWeights does not have. There, qkv is
// the projection of x to q (or to the low rank of q), stacked over the projection to the latent
// vector and the rotated part of K.
struct LatentWeights {
  Buffer q_norm;                       // [q_rank]
  std::unique_ptr<PackedMatrix> q_up;  // [n_heads · q_dim, q_rank]
  Buffer kv_norm;                      // [rank]
  std::unique_ptr<PackedMatrix> k_up;  // n_heads times [rank, qk_nope_head_dim]
  std::unique_ptr<PackedMatrix> v_up;  // n_heads times [value_dim, rank]
};

// Weights of entries (EntriesConfig).
struct EntryWeights {
  std::unique_ptr<PackedMatrix> in;  // [2 · parts · dim, model_dim], of values, then of gates
  Buffer positions;                  // [n_tokens, parts · dim]
  Buffer norm;                       // [dim]
};

// Weights of a layer's own indexer (IndexerConfig).
struct IndexerWeights {
  std::unique_ptr<PackedMatrix> query;  // [n_heads · head_dim, q_rank or model_dim]
  Buffer query_norm;                    // [head_dim]
  Buffer input_norm;                    // [model_dim] of the queries' input, then its biases
  SsmaxWeights ssmax;
  std::unique_ptr<PackedMatrix> key;      // [head_dim, model_dim]
  Buffer key_norm;                        // [head_dim], followed by its biases if it has some
  std::unique_ptr<PackedMatrix> weights;  // [n_heads, model_dim]
  EntryWeights entries;                   // of weighted means, `in` has the gates alone
};

// Weights of attention with K and V as one vector (JointConfig) that AttentionWeights does not
// have. There, qkv is the projection to the low rank of q, stacked over that to K and V, and
// `latent` has the norms of both and the projection to q.
struct JointWeights {
  std::unique_ptr<PackedMatrix> output_down;  // n_groups times [group_rank, heads of a group]
  EntryWeights entries;
};

// Weights of an attention layer. Tensors that the layer's config does not have are empty.
struct AttentionWeights {
  Buffer norm;  // [model_dim], followed by its biases if it has some
  // [q_dim + 2 · kv_dim + gate_dim, model_dim]; parts that the layer does not have are left out.
  std::unique_ptr<PackedMatrix> qkv;
  Buffer qkv_bias;        // [q_dim + 2 · kv_dim]
  Buffer q_norm, k_norm;  // [head_dim] each, or [q_dim] and [kv_dim] (QkNorm)
  LatentWeights latent;
  JointWeights joint;
  SsmaxWeights ssmax;
  IndexerWeights indexer;
  Buffer sinks;                          // [n_heads]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, q_dim]
  Buffer output_bias;                    // [model_dim]
  Buffer post_norm;                      // [model_dim]
};

// Weights of one layer for its per-layer input (ModelConfig::per_layer_dim, PerLayerInputs).
struct PerLayerWeights {
  std::unique_ptr<PackedMatrix> gate;    // [per_layer_dim, model_dim]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, per_layer_dim]
  Buffer post_norm;                      // [model_dim]
};

// Weights of the per-layer inputs that all layers share.
struct PerLayerEmbedding {
  std::unique_ptr<RowTable> table;           // [n_vocab, n_layers · per_layer_dim]
  std::unique_ptr<PackedMatrix> projection;  // [n_layers · per_layer_dim, model_dim]
  Buffer norm;                               // [per_layer_dim]
};

// Weights of one layer for its residual streams (StreamsConfig, ResidualStreams).
struct StreamWeights {
  Buffer norm;                                           // [model_dim]
  std::unique_ptr<PackedMatrix> router;                  // [n, model_dim]
  std::unique_ptr<PackedMatrix> predict;                 // [n², n]
  std::unique_ptr<PackedMatrix> correct;                 // [n, n]
  Buffer scale;                                          // [model_dim]
  std::unique_ptr<PackedMatrix> laurel_down, laurel_up;  // [rank, model_dim], [model_dim, rank]
  Buffer laurel_norm;                                    // [model_dim]
};

// Weights of hyper-connections (HyperConnections) of one half of a layer, or of the output. The
// last three are those of manifold-constrained ones.
struct HyperWeights {
  Buffer norm;                           // [n · model_dim]
  std::unique_ptr<PackedMatrix> down;    // [rank, n · model_dim]
  std::unique_ptr<PackedMatrix> up;      // [n · model_dim, rank]
  std::unique_ptr<PackedMatrix> inject;  // [n, n · model_dim]; null for the output
  // [(2 + n) · n, n · model_dim], of the output [n, n · model_dim]
  std::unique_ptr<PackedMatrix> projection;
  std::vector<float> base, scales;  // [(2 + n) · n] or [n], [3] or [1]; on the host
};

// Weights of n-grams (NgramConfig) beside their table.
struct NgramWeights {
  std::unique_ptr<PackedMatrix> key;       // [n · model_dim, dim]
  std::unique_ptr<PackedMatrix> value;     // [model_dim, dim]
  Buffer key_norm, query_norm, conv_norm;  // [n · model_dim] each
  Buffer conv;                             // [n_taps, n · model_dim]
};

// Projections of the first residual stream to the others before the first layer, and of the others
// after the last one: n − 1 times [model_dim, model_dim].
struct StreamProjections {
  std::unique_ptr<PackedMatrix> in, out;
};

struct FeedForwardWeights {
  Buffer norm;  // as of AttentionWeights; empty if both halves of the layer share a norm
  // MLP, or shared expert of a mixture of experts. If the activation has no gate, gate_up holds
  // only the up projection: [ffn_dim, model_dim].
  std::unique_ptr<PackedMatrix> gate_up;         // [2 · ffn_dim, model_dim]
  std::unique_ptr<PackedMatrix> down;            // [model_dim, ffn_dim]
  Buffer gate_up_bias;                           // [2 · ffn_dim], MLP only
  Buffer down_bias;                              // [model_dim], MLP only
  ActivationParameters activation = {};          // of gate_up
  float expert_limit = 0;                        // ActivationParameters::limit of the experts
  std::unique_ptr<PackedMatrix> router;          // [ExpertRouter::n_columns(), model_dim]
  Buffer score_bias;                             // [n_experts]
  std::vector<float> correction_bias;            // [n_experts], on the host
  std::vector<uint32_t> token_table;             // [n_vocab, n_used], experts, on the host
  std::unique_ptr<PackedMatrix> expert_gate_up;  // n_experts times [2 · ffn_dim, model_dim]
  Buffer expert_gate_up_bias;                    // n_experts times [2 · ffn_dim]
  std::unique_ptr<PackedMatrix> expert_down;     // n_experts times [model_dim, ffn_dim]
  Buffer expert_down_bias;                       // n_experts times [model_dim]
  // Projections to and from the experts' latent space: [latent_dim, model_dim], [model_dim,
  // latent_dim]
  std::unique_ptr<PackedMatrix> latent_down, latent_up;
  Buffer post_norm;  // [model_dim]
  // For experts that run in parallel with an MLP (ExpertsConfig::parallel_ffn_dim).
  Buffer router_norm, experts_norm, mlp_post_norm, experts_post_norm;  // [model_dim] each
  std::vector<float> expert_factors;                                   // [n_experts], on the host
};

// Weights of the MTP head in addition to a LayerWeights (MtpHeadBlock).
struct MtpHeadWeights {
  // [model_dim]; hidden_norm may be [mtp_hidden_dim] (StreamNorm)
  Buffer embedding_norm, hidden_norm, output_norm;
  std::unique_ptr<PackedMatrix> input;              // [model_dim, 2 · model_dim]
  std::unique_ptr<PackedMatrix> embedding, output;  // [n_vocab, model_dim]; null: the model's
  std::unique_ptr<PackedMatrix> post;               // [model_dim, draft_dim], of an assistant
  HyperWeights hyper_output;                        // with hyper-connections; empty: the model's
};

// Weights of an encoder that the layers do not have. A norm's biases follow its weights.
struct EncoderWeights {
  std::unique_ptr<PackedMatrix> token_types;  // [n_token_types, model_dim]
  Buffer embeddings_norm;                     // [2 · model_dim], or [model_dim] without biases
  std::unique_ptr<PackedMatrix> pooler;       // [model_dim, model_dim]
  Buffer pooler_bias;
  std::unique_ptr<PackedMatrix> classifier;  // [n_labels, model_dim]
  Buffer classifier_bias;
  // matrices after pooling, columns first: [model_dim, dense_dim] and back; on the host
  std::vector<float> dense_out, dense_back;
};

struct LayerWeights {
  AttentionWeights attention;  // of an attention layer; empty otherwise
  RecurrentWeights recurrent;
  FeedForwardWeights feed_forward;
  PerLayerWeights per_layer;
  StreamWeights streams;
  HyperWeights mixer_hyper, ffn_hyper;
  float scale = 1.0f;  // factor for the output rows of the layer

  // Returns the norm before the feed-forward block; empty if there is none.
  const Buffer& feed_forward_norm() const {
    return feed_forward.norm.size() > 0 ? feed_forward.norm : attention.norm;
  }
};

// Options of Model::load().
struct LoadOptions {
  // Context length that will be served. Some models choose their rotary frequencies by it. 0: the
  // trained context length.
  uint32_t n_ctx_max = 0;
  // KV page type that decoders of this model will use. If it is quantized, loading also measures K
  // (KeyStatistics), which a decoder with such pages needs.
  KvType kv_type = KvType::kInt8;
  // The source, if ModelSource::are_tables_in_file(); the model keeps it. Null: all weights are in
  // memory.
  std::shared_ptr<ModelSource> file = nullptr;
};

// A loaded model: config and packed weights. Immutable after loading, so any thread may read it.
class Model {
 public:
  // Called with the bytes of the source tensors packed so far, and of all of them.
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  // Packs every tensor of the source and releases it there. The source must have exactly the
  // tensors of the model, in the expected shapes, apart from those that
  // TensorTable::may_be_unused() names. Errors: those of read_config(), kCorrupt for a missing
  // tensor or a wrong shape, kUnsupported for an unknown tensor or element type; each names the
  // tensor.
  static Result<std::unique_ptr<Model>> load(ModelSource& source, Backend& backend,
                                             const Progress& progress, const LoadOptions& options);
  static Result<std::unique_ptr<Model>> load(ModelSource& source, Backend& backend,
                                             const Progress& progress) {
    return load(source, backend, progress, LoadOptions());
  }

  const ModelConfig& config() const { return config_; }
  const PackedMatrix& embedding() const { return *embedding_; }
  // Table of positions: [n_ctx_train, model_dim]; null if there is none.
  const PackedMatrix* positions() const { return positions_.get(); }
  // Weights of ModelConfig::layers, in the same order.
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const MtpHeadWeights& mtp_head() const { return mtp_head_; }
  const PackedMatrix& mtp_head_embedding() const {
    return mtp_head_.embedding ? *mtp_head_.embedding : embedding();
  }
  const PackedMatrix& mtp_head_output() const {
    return mtp_head_.output ? *mtp_head_.output : head();
  }
  const Buffer& mtp_head_norm() const {
    return mtp_head_.output_norm.size() > 0 ? mtp_head_.output_norm : output_norm();
  }
  const HyperWeights& mtp_head_hyper_output() const {
    const HyperWeights& own = mtp_head_.hyper_output;
    return own.down || own.projection ? own : hyper_output_;
  }
  const EncoderWeights& encoder() const { return encoder_; }
  const PerLayerEmbedding& per_layer() const { return per_layer_; }
  const StreamProjections& streams() const { return streams_; }
  const HyperWeights& hyper_output() const { return hyper_output_; }
  // Table of n-grams: [n_rows, row_dim]; null if there is none.
  const RowTable* ngram_table() const { return ngram_table_.get(); }
  const NgramWeights& ngrams() const { return ngrams_; }
  // The adapters of the model's own file, of which tokens choose (ModelConfig::adapter_switch).
  std::span<const std::shared_ptr<const Adapter>> own_adapters() const { return own_adapters_; }
  const Buffer& output_norm() const { return output_norm_; }
  // Output projection; the embedding if the model ties the two.
  const PackedMatrix& head() const { return head_ ? *head_ : *embedding_; }
  const Buffer& head_bias() const { return head_bias_; }  // [n_vocab]; empty if there is none
  // Weights of a reranker's score in the last token's state, [model_dim]: the classifier's row of
  // "yes" minus that of "no". Empty: the model is no reranker.
  std::span<const float> score_weights() const { return score_weights_; }
  // Divisors of the rotary frequencies, one per pair of dimensions (Llama 3.1, Phi-3); empty if the
  // file has none.
  const std::vector<float>& rope_divisors() const { return rope_divisors_; }

  uint64_t weight_bytes() const { return weight_bytes_; }
  // Hash of the metadata, the tensor table and all tensor data: 64 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  // Identifies the code and the arithmetic that compute K and V (see fingerprint.h).
  const std::string& numerics() const { return numerics_; }
  // Returns the statistics from which the bases of int8 and int4 pages are derived. They are empty
  // if the model was loaded for other page types, or if no layer stores K by head.
  const KeyStatistics& key_statistics() const { return key_statistics_; }
  // Location of each tensor in the packed matrices, for adapters. A tied head has an entry, too.
  const std::map<TensorId, ProjectionSite>& sites() const { return sites_; }
  // The different kinds of the model's matrices, each listed once.
  const std::vector<WeightKind>& weight_kinds() const { return weight_kinds_; }

 private:
  friend class ModelLoader;
  Model() = default;

  ModelConfig config_;
  std::unique_ptr<PackedMatrix> embedding_, positions_;
  std::unique_ptr<PackedMatrix> head_;
  std::vector<LayerWeights> layers_;
  MtpHeadWeights mtp_head_;
  EncoderWeights encoder_;
  PerLayerEmbedding per_layer_;
  StreamProjections streams_;
  HyperWeights hyper_output_;
  std::unique_ptr<RowTable> ngram_table_;
  NgramWeights ngrams_;
  std::vector<std::shared_ptr<const Adapter>> own_adapters_;
  Buffer output_norm_, head_bias_;
  std::vector<float> rope_divisors_, score_weights_;
  uint64_t weight_bytes_ = 0;
  std::vector<WeightKind> weight_kinds_;
  std::map<TensorId, ProjectionSite> sites_;
  std::string fingerprint_, numerics_;
  KeyStatistics key_statistics_;
};

}  // namespace kvik
