#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "format/source_config.h"
#include "model/adapter.h"
#include "model/fingerprint.h"
#include "model/indexer/index_places.h"
#include "model/tensor_loader.h"
#include "model/weight_plan.h"

namespace kvik {
namespace {

bool has_indexer(const LayerConfig& layer) {
  return layer.if_attention() && layer.attention().indexer.n_top > 0;
}

bool has_entries(const LayerConfig& layer) {
  return layer.has_entries() ||
         (has_indexer(layer) && layer.attention().indexer.has_weighted_means);
}

}  // namespace

// Builds a model from the tensors of its roles. Lives for one load.
class ModelLoader {
 public:
  ModelLoader(ModelSource& source, Backend& backend, const Model::Progress& progress,
              const ModelConfig& config)
      : source_(source),
        backend_(backend),
        config_(config),
        tensors_(source, backend, table_, progress) {}

  Result<std::unique_ptr<Model>> load(const LoadOptions& options) {
    using enum TensorRole;
    TRY(check_vocabulary());
    TRY(check_heads());
    TRY(check_operations());
    TRY_ASSIGN(model_->embedding_, tensors_.matrix({kEmbedding}));
    TRY_ASSIGN(model_->positions_, tensors_.matrix({kPositions}));
    if (config_.encoder) {
      TRY(load_encoder(model_->encoder_));
      TRY_ASSIGN(model_->output_norm_, tensors_.vectors({kOutputNorm}));
    } else {
      TRY_ASSIGN(model_->output_norm_,
                 tensors_.vectors({kOutputNorm, kEmbeddingsNorm, kOutputNormBias}));
    }
    TRY_ASSIGN(model_->head_, tensors_.matrix({kHead}));
    TRY_ASSIGN(model_->head_bias_, tensors_.vectors({kHeadBias}));
    if (config_.reranker) TRY(load_reranker());
    auto& table = config_.ngrams ? model_->ngram_table_ : model_->per_layer_.table;
    TRY_ASSIGN(table, tensors_.row_table(kPerLayerEmbedding, options.file));
    TRY_ASSIGN(model_->per_layer_.projection, tensors_.matrix({kPerLayerProjection}));
    TRY_ASSIGN(model_->per_layer_.norm, tensors_.vectors({kPerLayerProjectionNorm}));
    TRY_ASSIGN(model_->streams_.in, tensors_.experts({kStreamProjections}, 0));
    TRY_ASSIGN(model_->streams_.out, tensors_.experts({kStreamOutputs}, 0));
    TRY(load_hyper(model_->hyper_output_, {kHyperNorm, kHyperDown, kHyperUp},
                   {kHyperProjection, kHyperBase, kHyperScale}, 0));
    if (config_.ngrams) TRY(load_ngrams(model_->ngrams_));
    TRY(load_rope_divisors(options.n_ctx_max ? options.n_ctx_max : config_.n_ctx_train));
    for (uint32_t i = 0; i < config_.layers.size(); ++i) {
      TRY_ASSIGN(LayerWeights layer, load_layer(i));
      model_->layers_.push_back(std::move(layer));
    }
    if (config_.has_mtp_head) TRY(load_mtp_head(model_->mtp_head_));
    if (config_.adapter_switch) {
      TRY_ASSIGN(auto adapters, Adapter::load_own(tensors_, config_, backend_));
      model_->own_adapters_.assign(std::make_move_iterator(adapters.begin()),
                                   std::make_move_iterator(adapters.end()));
    }
    TRY(tensors_.check_all_taken(config_.architecture));
    model_->config_ = config_;
    model_->fingerprint_ = tensors_.fingerprint();
    arithmetics_.insert(tensors_.arithmetics().begin(), tensors_.arithmetics().end());
    model_->numerics_ = numerics(arithmetics_);
    model_->weight_kinds_ = weight_kinds(source_.tensors(), table_);
    model_->sites_ = tensors_.sites();
    if (!model_->head_ && !config_.encoder)
      model_->sites_[{kHead}] = model_->sites_.at({kEmbedding});
    model_->weight_bytes_ = tensors_.weight_bytes();
    return std::move(model_);
  }

 private:
  // Checks that the vocabulary has as many tokens as the embedding has rows.
  Result<void> check_vocabulary() const {
    TRY_ASSIGN(const auto* tokens, source_.metadata().get_strings("tokenizer.ggml.tokens"));
    if (tokens && tokens->size() != config_.n_vocab) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("the vocabulary has {} tokens, but '{}.vocab_size' is {}",
                              tokens->size(), config_.architecture, config_.n_vocab));
    }
    return {};
  }

  Result<void> check_heads() const {
    for (const LayerConfig& layer : config_.layers) {
      if (!layer.if_attention() || layer.attention().head_dim <= backend_.max_head_dim()) continue;
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("heads of {} dimensions, expected {} at most on {}",
                      layer.attention().head_dim, backend_.max_head_dim(), backend_.name()));
    }
    return {};
  }

  Result<void> check_operations() const {
    const char* missing = nullptr;
    if (config_.activation == Activation::kXielu && !backend_.has_xielu()) {
      missing = "xIELU activations";
    } else if (!config_.encoder && config_.norm != NormKind::kRms && !backend_.can_encode()) {
      missing = "layer norms";
    } else if ((config_.streams || config_.hyper) && !backend_.has_streams()) {
      missing = "several residual streams";
    } else if (std::ranges::any_of(config_.layers, has_indexer) && !backend_.has_indexer()) {
      missing = "an indexer that selects the tokens to attend to";
    } else if (std::ranges::any_of(config_.layers, has_entries) && !backend_.has_entries()) {
      missing = "entries of several tokens to attend to";
    }
    if (!missing) return {};
    return fail(ErrorCode::kUnsupported,
                fmt::format("models of architecture '{}' have {}, which {} does not compute, "
                            "expected --device cpu",
                            config_.architecture, missing, backend_.name()));
  }

  // Loads a layer. Weights that the layer does not have stay empty.
  Result<LayerWeights> load_layer(uint32_t layer) {
    using enum TensorRole;
    LayerWeights weights;
    if (const auto* attention = config_.layers[layer].if_attention()) {
      TRY(load_attention(*attention, layer, weights.attention));
    }
    if (config_.layers[layer].has_state()) {
      TRY_ASSIGN(weights.recurrent, load_recurrent(tensors_, config_.layers[layer], layer));
    }
    if (!config_.layers[layer].mixes()) {
      TRY_ASSIGN(weights.feed_forward.norm, tensors_.vectors({kAttentionNorm}, layer));
    }
    TRY(load_feed_forward(layer, weights));
    return weights;
  }

  Result<void> load_attention(const AttentionConfig& config, uint32_t layer, AttentionWeights& a) {
    using enum TensorRole;
    TRY_ASSIGN(a.norm, tensors_.vectors({kAttentionNorm, kAttentionNormBias}, layer));
    const bool is_in_q = config.output_gate == OutputGate::kInQ;
    TRY_ASSIGN(a.qkv, tensors_.matrix({kQkv, kQDown, kQ, kKvDown, kJointKv, kK, kV, kOutputGate},
                                      layer, {kQ, is_in_q ? config.head_dim : 0}));
    TRY_ASSIGN(a.latent.q_norm, tensors_.vectors({kQDownNorm}, layer));
    TRY_ASSIGN(a.latent.q_up, tensors_.matrix({kQUp}, layer));
    TRY_ASSIGN(a.latent.kv_norm, tensors_.vectors({kKvDownNorm}, layer));
    TRY_ASSIGN(a.latent.k_up, tensors_.experts({kKUp}, layer));
    TRY_ASSIGN(a.latent.v_up, tensors_.experts({kVUp}, layer));
    TRY_ASSIGN(a.indexer.query, tensors_.matrix({kIndexQuery, kIndexHeadQuery}, layer));
    TRY_ASSIGN(a.indexer.query_norm, tensors_.vectors({kIndexQueryNorm}, layer));
    TRY_ASSIGN(a.indexer.key, tensors_.matrix({kIndexKey, kIndexHeadKey}, layer));
    TRY_ASSIGN(a.indexer.key_norm, tensors_.vectors({kIndexKeyNorm, kIndexKeyNormBias}, layer));
    TRY_ASSIGN(a.indexer.weights, tensors_.matrix({kIndexWeights}, layer));
    TRY_ASSIGN(a.indexer.input_norm,
               tensors_.vectors({kIndexInputNorm, kIndexInputNormBias}, layer));
    TRY_ASSIGN(a.indexer.ssmax.scale, tensors_.host_vectors({kIndexSsmaxScale}, layer));
    TRY_ASSIGN(a.indexer.ssmax.bias, tensors_.host_vectors({kIndexSsmaxBias}, layer));
    TRY_ASSIGN(a.ssmax.scale, tensors_.host_vectors({kSsmaxScale}, layer));
    TRY_ASSIGN(a.ssmax.bias, tensors_.host_vectors({kSsmaxBias}, layer));
    TRY_ASSIGN(a.qkv_bias, tensors_.vectors({kQkvBias, kQBias, kKBias, kVBias}, layer));
    TRY_ASSIGN(a.q_norm, tensors_.vectors({kQNorm}, layer));
    TRY_ASSIGN(a.k_norm, tensors_.vectors({kKNorm}, layer));
    TRY(tensors_.check_all_or_none({kQBias, kKBias, kVBias}, layer));
    TRY(tensors_.check_all_or_none({kQNorm, kKNorm}, layer));
    TRY_ASSIGN(a.sinks, tensors_.vectors({kSinks}, layer));
    TRY_ASSIGN(a.output, tensors_.matrix({kAttentionOutput, kOutputUp}, layer));
    TRY_ASSIGN(a.joint.output_down,
               tensors_.parts_of_rows({kOutputDown}, layer, config.joint.n_groups));
    TRY(load_entries(a.joint.entries, {kEntryValue, kEntryGate, kEntryPositions, kEntryNorm},
                     layer));
    TRY(load_entries(a.indexer.entries,
                     {kIndexEntryValue, kIndexEntryGate, kIndexEntryPositions, kIndexEntryNorm},
                     layer));
    TRY_ASSIGN(a.output_bias, tensors_.vectors({kAttentionOutputBias}, layer));
    return {};
  }

  struct EntryRoles {
    TensorRole value, gate, positions, norm;
  };
  Result<void> load_entries(EntryWeights& e, EntryRoles roles, uint32_t layer) {
    TRY_ASSIGN(e.in, tensors_.matrix({roles.value, roles.gate}, layer));
    TRY_ASSIGN(e.positions, tensors_.vectors({roles.positions}, layer));
    TRY_ASSIGN(e.norm, tensors_.vectors({roles.norm}, layer));
    return {};
  }

  Result<void> load_feed_forward(uint32_t layer, LayerWeights& weights) {
    using enum TensorRole;
    FeedForwardWeights& f = weights.feed_forward;
    Buffer& mixer_post_norm = config_.layers[layer].if_attention() ? weights.attention.post_norm
                                                                   : weights.recurrent.post_norm;
    Buffer& post_attention = config_.is_ffn_norm_post_attention ? f.norm : mixer_post_norm;
    if (config_.layers[layer].mixes()) {
      TRY_ASSIGN(post_attention,
                 tensors_.vectors(
                     {kPostAttentionNorm, kAttentionOutputNorm, kAttentionOutputNormBias}, layer));
      if (!config_.is_ffn_norm_post_attention) {
        TRY_ASSIGN(f.norm, tensors_.vectors({kFfnNorm, kBareFfnNorm, kFfnNormBias}, layer));
      }
    }
    const auto* mlp = std::get_if<MlpConfig>(&config_.layers[layer].feed_forward);
    if (mlp) f.activation = mlp->activation;
    if (const auto* experts = config_.layers[layer].experts()) {
      f.activation.limit = experts->shared_limit;
      f.activation.limits_gate = experts->limits_gate;
      f.expert_limit = experts->limit;
      if (experts->has_token_table) {
        TRY_ASSIGN(f.token_table, tensors_.numbers({kExpertTable, layer}, experts->n_experts));
      }
    }
    TRY_ASSIGN(f.router, tensors_.matrix({kRouter, kSharedExpertGate}, layer));
    TRY_ASSIGN(f.score_bias, tensors_.vectors({kScoreBias}, layer));
    TRY_ASSIGN(f.correction_bias, tensors_.host_vectors({kCorrectionBias}, layer));
    TRY_ASSIGN(f.expert_gate_up, tensors_.experts({kExpertGate, kExpertUp}, layer));
    TRY_ASSIGN(f.expert_gate_up_bias,
               tensors_.expert_vectors({kExpertGateBias, kExpertUpBias}, layer));
    TRY_ASSIGN(f.expert_down, tensors_.experts({kExpertDown}, layer));
    TRY_ASSIGN(f.expert_down_bias, tensors_.expert_vectors({kExpertDownBias}, layer));
    TRY_ASSIGN(f.latent_down, tensors_.matrix({kExpertsLatentDown}, layer));
    TRY_ASSIGN(f.latent_up, tensors_.matrix({kExpertsLatentUp}, layer));
    TRY_ASSIGN(f.gate_up, tensors_.matrix({kGate, kUp, kSharedGate, kSharedUp}, layer));
    TRY_ASSIGN(f.gate_up_bias, tensors_.vectors({kGateBias, kUpBias}, layer));
    TRY(tensors_.check_all_or_none({kGateBias, kUpBias}, layer));
    TRY_ASSIGN(f.down, tensors_.matrix({kDown, kSharedDown}, layer));
    TRY_ASSIGN(f.down_bias, tensors_.vectors({kDownBias}, layer));
    TRY_ASSIGN(f.post_norm,
               tensors_.vectors({kPostFfnNorm, kLayerOutputNorm, kLayerOutputNormBias}, layer));
    TRY(load_parallel_experts(f, layer));
    return load_per_layer(weights, layer);
  }

  Result<void> load_parallel_experts(FeedForwardWeights& f, uint32_t layer) {
    using enum TensorRole;
    TRY_ASSIGN(f.router_norm, tensors_.vectors({kRouterNorm}, layer));
    TRY_ASSIGN(f.expert_factors, tensors_.host_vectors({kExpertFactors}, layer));
    TRY_ASSIGN(f.experts_norm, tensors_.vectors({kExpertsNorm}, layer));
    TRY_ASSIGN(f.mlp_post_norm, tensors_.vectors({kMlpPostNorm}, layer));
    TRY_ASSIGN(f.experts_post_norm, tensors_.vectors({kExpertsPostNorm}, layer));
    return {};
  }

  Result<void> load_per_layer(LayerWeights& weights, uint32_t layer) {
    using enum TensorRole;
    TRY_ASSIGN(weights.per_layer.gate, tensors_.matrix({kPerLayerGate}, layer));
    TRY_ASSIGN(weights.per_layer.output, tensors_.matrix({kPerLayerOutput}, layer));
    TRY_ASSIGN(weights.per_layer.post_norm, tensors_.vectors({kPerLayerPostNorm}, layer));
    TRY_ASSIGN(const auto scale, tensors_.host_vectors({kLayerScale}, layer));
    if (!scale.empty()) weights.scale = scale.front();
    TRY(load_hyper(weights.mixer_hyper,
                   {kMixerHyperNorm, kMixerHyperDown, kMixerHyperUp, kMixerHyperInject},
                   {kMixerHyperProjection, kMixerHyperBase, kMixerHyperScale}, layer));
    TRY(load_hyper(weights.ffn_hyper, {kFfnHyperNorm, kFfnHyperDown, kFfnHyperUp, kFfnHyperInject},
                   {kFfnHyperProjection, kFfnHyperBase, kFfnHyperScale}, layer));
    return load_streams(weights.streams, layer);
  }

  struct HyperRoles {
    TensorRole norm, down, up;
    std::optional<TensorRole> inject = {};
  };
  struct SinkhornRoles {
    TensorRole projection, base, scale;
  };
  Result<void> load_hyper(HyperWeights& h, HyperRoles roles, SinkhornRoles mixed, uint32_t layer) {
    TRY_ASSIGN(h.norm, tensors_.vectors({roles.norm}, layer));
    TRY_ASSIGN(h.down, tensors_.matrix({roles.down}, layer));
    TRY_ASSIGN(h.up, tensors_.matrix({roles.up}, layer));
    TRY_ASSIGN(h.projection, tensors_.matrix({mixed.projection}, layer));
    TRY_ASSIGN(h.base, tensors_.host_vectors({mixed.base}, layer));
    TRY_ASSIGN(h.scales, tensors_.host_vectors({mixed.scale}, layer));
    if (!roles.inject) return {};
    TRY_ASSIGN(h.inject, tensors_.matrix({*roles.inject}, layer));
    return {};
  }

  Result<void> load_ngrams(NgramWeights& g) {
    using enum TensorRole;
    const NgramConfig& config = *config_.ngrams;
    TRY_ASSIGN(g.key, tensors_.matrix({kNgramKey}, config.layer));
    TRY_ASSIGN(g.value, tensors_.matrix({kNgramValue}, config.layer));
    TRY_ASSIGN(g.key_norm, tensors_.vectors({kNgramKeyNorm}, config.layer));
    TRY_ASSIGN(g.query_norm, tensors_.vectors({kNgramQueryNorm}, config.layer));
    TRY_ASSIGN(g.conv_norm, tensors_.vectors({kNgramConvNorm}, config.layer));
    TRY_ASSIGN(const auto taps, tensors_.host_vectors({kNgramConv}, config.layer));
    const std::vector<float> spread = spread_taps(taps, config);
    tensors_.add_weight_bytes((spread.size() - taps.size()) * sizeof(float));
    g.conv = tensors_.keep(spread);
    return {};
  }

  // Returns the weights of all taps of a convolution, oldest first, for neighboring channels. Those
  // between the taps of the tensor are zero.
  static std::vector<float> spread_taps(const std::vector<float>& by_channel,
                                        const NgramConfig& config) {
    const size_t n_channels = by_channel.size() / config.kernel_size;
    std::vector<float> taps(n_channels * config.n_taps());
    for (size_t channel = 0; channel < n_channels; ++channel) {
      for (size_t i = 0; i < config.kernel_size; ++i) {
        taps[i * config.n_tokens * n_channels + channel] =
            by_channel[channel * config.kernel_size + i];
      }
    }
    return taps;
  }

  Result<void> load_streams(StreamWeights& s, uint32_t layer) {
    using enum TensorRole;
    TRY_ASSIGN(s.norm, tensors_.vectors({kStreamNorm}, layer));
    TRY_ASSIGN(s.router, tensors_.matrix({kStreamRouter}, layer));
    TRY_ASSIGN(s.predict, tensors_.matrix({kStreamPredict}, layer));
    TRY_ASSIGN(s.correct, tensors_.matrix({kStreamCorrect}, layer));
    TRY_ASSIGN(s.scale, tensors_.vectors({kStreamScale}, layer));
    TRY_ASSIGN(s.laurel_down, tensors_.matrix({kLaurelDown}, layer));
    TRY_ASSIGN(s.laurel_up, tensors_.matrix({kLaurelUp}, layer));
    TRY_ASSIGN(s.laurel_norm, tensors_.vectors({kLaurelNorm}, layer));
    return {};
  }

  // The MTP head becomes a part of numerics(), because its K and V lie in the same
  // pages as those of the other layers.
  Result<void> load_mtp_head(MtpHeadWeights& g) {
    using enum TensorRole;
    TRY_ASSIGN(g.embedding_norm, tensors_.vectors({kMtpEmbeddingNorm}, config_.n_layers));
    TRY_ASSIGN(g.hidden_norm, tensors_.vectors({kMtpHiddenNorm}, config_.n_layers));
    TRY_ASSIGN(g.output_norm, tensors_.vectors({kMtpOutputNorm}, config_.n_layers));
    TRY_ASSIGN(g.input, tensors_.matrix({kMtpProjection}, config_.n_layers));
    TRY_ASSIGN(g.embedding, tensors_.matrix({kMtpEmbedding}, config_.n_layers));
    TRY_ASSIGN(g.output, tensors_.matrix({kMtpHead}, config_.n_layers));
    TRY_ASSIGN(g.post, tensors_.matrix({kMtpPost}, config_.n_layers));
    TRY(tensors_.check_all_or_none({kMtpHyperProjection, kMtpHyperBase, kMtpHyperScale},
                                   config_.n_layers));
    TRY(load_hyper(g.hyper_output, {kMtpHyperNorm, kMtpHyperDown, kMtpHyperUp},
                   {kMtpHyperProjection, kMtpHyperBase, kMtpHyperScale}, config_.n_layers));
    arithmetics_.insert("guesser");
    return {};
  }

  Result<void> load_reranker() {
    TRY_ASSIGN(std::vector<float> rows, tensors_.floats({TensorRole::kClassifier}));
    const size_t dim = rows.size() / 2;
    for (size_t i = 0; i < dim; ++i) rows[i] -= rows[dim + i];
    rows.resize(dim);
    tensors_.add_weight_bytes(dim * sizeof(float));
    model_->score_weights_ = std::move(rows);
    return {};
  }

  Result<void> load_encoder(EncoderWeights& e) {
    using enum TensorRole;
    TRY_ASSIGN(e.token_types, tensors_.matrix({kTokenTypes}));
    TRY_ASSIGN(e.embeddings_norm, tensors_.vectors({kEmbeddingsNorm, kEmbeddingsNormBias}));
    TRY_ASSIGN(e.pooler, tensors_.matrix({kPooler}));
    TRY_ASSIGN(e.pooler_bias, tensors_.vectors({kPoolerBias}));
    TRY_ASSIGN(e.classifier, tensors_.matrix({kClassifier}));
    TRY_ASSIGN(e.classifier_bias, tensors_.vectors({kClassifierBias}));
    if (config_.encoder->dense_dim == 0) return {};
    TRY_ASSIGN(const auto out, tensors_.host_vectors({kDenseOut}));
    TRY_ASSIGN(const auto back, tensors_.host_vectors({kDenseBack}));
    e.dense_out = columns_first(out, config_.model_dim);
    e.dense_back = columns_first(back, config_.encoder->dense_dim);
    return {};
  }

  static std::vector<float> columns_first(const std::vector<float>& matrix, size_t n_cols) {
    const size_t n_rows = matrix.size() / n_cols;
    std::vector<float> out(matrix.size());
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t column = 0; column < n_cols; ++column) {
        out[column * n_rows + row] = matrix[row * n_cols + column];
      }
    }
    return out;
  }

  Result<void> load_rope_divisors(uint32_t n_ctx) {
    using enum TensorRole;
    if (config_.has_learned_rope || tensors_.has(kRopeDivisors)) {
      TRY_ASSIGN(model_->rope_divisors_, rope_divisors(kRopeDivisors));
    }
    if (!tensors_.has(kLongRopeDivisors) && !tensors_.has(kShortRopeDivisors)) return {};
    TRY_ASSIGN(auto of_long, rope_divisors(kLongRopeDivisors));
    TRY_ASSIGN(auto of_short, rope_divisors(kShortRopeDivisors));
    if (config_.n_ctx_short_rope == 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' is there, but the key "
                              "'{}.rope.scaling.original_context_length' is missing",
                              name_of(TensorId{kLongRopeDivisors}), config_.architecture));
    }
    // Cached pages computed with one set of divisors must not be hit by a server that uses the
    // other.
    const bool is_long = n_ctx > config_.n_ctx_short_rope;
    arithmetics_.insert(is_long ? "long rope" : "short rope");
    model_->rope_divisors_ = std::move(is_long ? of_long : of_short);
    return {};
  }

  Result<std::vector<float>> rope_divisors(TensorRole role) {
    TRY_ASSIGN(auto divisors, tensors_.floats({role}));
    tensors_.add_weight_bytes(divisors.size() * sizeof(float));
    for (const float divisor : divisors) {
      if (!(divisor > 0)) {
        const auto index = source_.find(name_of(TensorId{role}));
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor '{}' gives a divisor of {}, expected numbers > 0",
                                source_.name_in_file(*index), divisor));
      }
    }
    return divisors;
  }

  ModelSource& source_;
  Backend& backend_;
  const ModelConfig& config_;
  const TensorTable table_{config_};
  TensorLoader tensors_;
  std::unique_ptr<Model> model_{new Model};
  std::set<std::string_view> arithmetics_;
};

Result<std::unique_ptr<Model>> Model::load(ModelSource& source, Backend& backend,
                                           const Progress& progress, const LoadOptions& options) {
  const auto load = [&]() -> Result<std::unique_ptr<Model>> {
    TRY_ASSIGN(const ModelConfig config, config_of(source));
    TRY_ASSIGN(auto loaded, ModelLoader(source, backend, progress, config).load(options));
    if (!config.encoder && is_quantized(options.kv_type) &&
        KeyStatistics::n_dimensions(config) > 0) {
      loaded->key_statistics_ = KeyStatistics::measure(*loaded, backend);
    }
    return loaded;
  };
  auto model = load();
  if (!model) {
    return fail(model.error().code, fmt::format("{}: {}", source.label(), model.error().message));
  }
  return model;
}

KvGeometry kv_geometry(const LayerGroups& groups, uint32_t group, KvType type) {
  const LayerGroups::Heads& heads = groups.heads[group];
  return {.type = type,
          .n_layers = groups.n_layers[group],
          .n_kv_heads = heads.n_kv_heads,
          .head_dim = heads.head_dim,
          .latent_dim = heads.latent_dim,
          .keys_by_channel =
              type == KvType::kInt4 && !groups.has_recurrent_layers && heads.latent_dim == 0};
}

size_t kv_page_bytes(const ModelConfig& config, KvType type, const Backend& backend) {
  const LayerGroups groups = group_layers(config);
  size_t most = 0;
  for (uint32_t group = 0; group < groups.n_groups(); ++group) {
    most = std::max(most, backend.page_bytes(kv_geometry(groups, group, type)));
  }
  return most;
}

std::optional<MtpHiddenPlace> mtp_hidden_place(const ModelConfig& config, KvType type,
                                               const Backend& backend) {
  constexpr uint64_t kLineBytes = 64;
  if (!config.has_mtp_head || config.has_state()) return std::nullopt;
  const LayerGroups groups = group_layers(config);
  const uint32_t group = groups.places[config.n_layers].group;
  const uint64_t used = bytes_with_index(config, groups, group, type, backend);
  return MtpHiddenPlace{.group = group,
                        .offset = (used + kLineBytes - 1) / kLineBytes * kLineBytes,
                        .n_bytes = uint64_t{config.mtp_hidden_dim()} * sizeof(float)};
}

size_t page_bytes(const ModelConfig& config, KvType type, const Backend& backend) {
  const LayerGroups groups = group_layers(config);
  size_t n_bytes = 0;
  for (uint32_t group = 0; group < groups.n_groups(); ++group) {
    n_bytes = std::max<size_t>(n_bytes, bytes_with_index(config, groups, group, type, backend));
  }
  const auto hidden = mtp_hidden_place(config, type, backend);
  return hidden ? std::max<size_t>(n_bytes, hidden->offset + hidden->n_bytes) : n_bytes;
}

}  // namespace kvik
