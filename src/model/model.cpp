#include "model/model.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "model/fingerprint.h"
#include "model/layer_groups.h"
#include "model/tensor_loader.h"
#include "model/weight_plan.h"

namespace kvik {

// Two sets of divisors of the rotation frequencies, for contexts beyond what the model was first
// trained on and up to that.
constexpr const char* kLongRope = "rope_factors_long.weight";
constexpr const char* kShortRope = "rope_factors_short.weight";

// Which tensors make a model of that config. Lives for one load.
class ModelLoader {
 public:
  ModelLoader(ModelSource& source, Backend& backend, const Model::Progress& progress)
      : source_(source), tensors_(source, backend, progress) {}

  // n_ctx_max: the context that will be served; 0: as trained.
  Result<std::unique_ptr<Model>> load(uint32_t n_ctx_max) {
    TRY_ASSIGN(model_->config_, read_config(source_.metadata()));
    const ModelConfig& c = model_->config_;
    TRY(check_vocabulary());
    TRY_ASSIGN(model_->embedding_,
               tensors_.matrix({{"token_embd.weight", c.n_vocab}}, c.model_dim));
    TRY_ASSIGN(model_->output_norm_, tensors_.vector("output_norm.weight", c.model_dim));
    if (tensors_.has("output.weight")) {
      TRY_ASSIGN(model_->head_, tensors_.matrix({{"output.weight", c.n_vocab}}, c.model_dim));
    }
    TRY(load_rope_divisors(n_ctx_max ? n_ctx_max : c.n_ctx_train));
    for (uint32_t i = 0; i < c.n_layers; ++i) {
      TRY_ASSIGN(LayerWeights layer, load_layer(i));
      model_->layers_.push_back(std::move(layer));
    }
    TRY(tensors_.check_all_taken(c.architecture));
    model_->fingerprint_ = tensors_.fingerprint();
    arithmetics_.insert(tensors_.arithmetics().begin(), tensors_.arithmetics().end());
    model_->numerics_ = numerics(arithmetics_);
    model_->weight_kinds_ = weight_kinds(source_.tensors());
    model_->weight_bytes_ = tensors_.weight_bytes();
    return std::move(model_);
  }

 private:
  // The vocabulary's words and the embedding's rows must be as many.
  Result<void> check_vocabulary() const {
    TRY_ASSIGN(const auto* tokens, source_.metadata().get_strings("tokenizer.ggml.tokens"));
    if (tokens && tokens->size() != model_->config_.n_vocab) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("the vocabulary has {} tokens, but '{}.vocab_size' is {}", tokens->size(),
                      model_->config_.architecture, model_->config_.n_vocab));
    }
    return {};
  }

  Result<LayerWeights> load_layer(uint32_t index) {
    const std::string prefix = fmt::format("blk.{}.", index);
    LayerWeights w;
    TRY(load_attention(prefix, w));
    TRY(load_mlp(prefix, w));
    return w;
  }

  Result<void> load_attention(const std::string& prefix, LayerWeights& w) {
    const ModelConfig& c = model_->config_;
    if (c.has_pre_norms) {
      TRY_ASSIGN(w.attention_norm, tensors_.vector(prefix + "attn_norm.weight", c.model_dim));
    }
    if (c.has_fused_qkv) {
      TRY_ASSIGN(w.qkv, tensors_.matrix({{prefix + "attn_qkv.weight", c.q_dim() + 2 * c.kv_dim()}},
                                        c.model_dim));
    } else {
      TRY_ASSIGN(w.qkv, tensors_.matrix({{prefix + "attn_q.weight", c.q_dim()},
                                         {prefix + "attn_k.weight", c.kv_dim()},
                                         {prefix + "attn_v.weight", c.kv_dim()}},
                                        c.model_dim));
    }
    if (c.has_qkv_bias) {
      TRY_ASSIGN(w.qkv_bias, tensors_.vectors({{prefix + "attn_q.bias", c.q_dim()},
                                               {prefix + "attn_k.bias", c.kv_dim()},
                                               {prefix + "attn_v.bias", c.kv_dim()}}));
    }
    if (c.qk_norm != QkNorm::kNone) {
      TRY_ASSIGN(w.q_norm, tensors_.vector(prefix + "attn_q_norm.weight", c.q_norm_dim()));
      TRY_ASSIGN(w.k_norm, tensors_.vector(prefix + "attn_k_norm.weight", c.k_norm_dim()));
    }
    TRY_ASSIGN(w.output,
               tensors_.matrix({{prefix + "attn_output.weight", c.model_dim}}, c.q_dim()));
    if (c.has_post_norms) {
      TRY_ASSIGN(w.post_attention_norm,
                 tensors_.vector(prefix + "post_attention_norm.weight", c.model_dim));
    }
    return {};
  }

  Result<void> load_mlp(const std::string& prefix, LayerWeights& w) {
    const ModelConfig& c = model_->config_;
    if (c.has_pre_norms) {
      TRY_ASSIGN(w.ffn_norm, tensors_.vector(prefix + "ffn_norm.weight", c.model_dim));
    }
    if (c.has_experts()) TRY(load_experts(prefix, w));
    // What every token goes through beside the experts is called shared.
    const std::string tail = c.has_experts() ? "_shexp.weight" : ".weight";
    const uint32_t n = c.mlp_dim();
    if (n > 0) {
      if (c.has_fused_gate_up) {
        TRY_ASSIGN(w.gate_up, tensors_.matrix({{prefix + "ffn_up" + tail, 2 * n}}, c.model_dim));
      } else {
        TRY_ASSIGN(w.gate_up,
                   tensors_.matrix({{prefix + "ffn_gate" + tail, n}, {prefix + "ffn_up" + tail, n}},
                                   c.model_dim));
      }
      TRY_ASSIGN(w.down, tensors_.matrix({{prefix + "ffn_down" + tail, c.model_dim}}, n));
    }
    if (c.has_post_norms) {
      TRY_ASSIGN(w.post_ffn_norm, tensors_.vector(prefix + "post_ffw_norm.weight", c.model_dim));
    }
    return {};
  }

  Result<void> load_experts(const std::string& prefix, LayerWeights& w) {
    const ModelConfig& c = model_->config_;
    const ExpertsConfig& e = c.experts;
    std::vector<TensorLoader::Part> router = {{prefix + "ffn_gate_inp.weight", e.n_experts}};
    if (e.has_shared_gate) router.push_back({prefix + "ffn_gate_inp_shexp.weight", 1});
    TRY_ASSIGN(w.router, tensors_.matrix(router, c.model_dim));
    TRY_ASSIGN(w.expert_gate_up, tensors_.experts({{prefix + "ffn_gate_exps.weight", e.ffn_dim},
                                                   {prefix + "ffn_up_exps.weight", e.ffn_dim}},
                                                  e.n_experts, c.model_dim));
    TRY_ASSIGN(w.expert_down, tensors_.experts({{prefix + "ffn_down_exps.weight", c.model_dim}},
                                               e.n_experts, e.ffn_dim));
    return {};
  }

  Result<void> load_rope_divisors(uint32_t n_ctx) {
    if (tensors_.has("rope_freqs.weight")) {
      TRY_ASSIGN(model_->rope_divisors_, rope_divisors("rope_freqs.weight"));
    }
    if (!tensors_.has(kLongRope) && !tensors_.has(kShortRope)) return {};
    TRY_ASSIGN(auto of_long, rope_divisors(kLongRope));
    TRY_ASSIGN(auto of_short, rope_divisors(kShortRope));
    const uint32_t n_ctx_short = model_->config_.n_ctx_short_rope;
    if (n_ctx_short == 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' is there, but the key "
                              "'{}.rope.scaling.original_context_length' is missing",
                              kLongRope, model_->config_.architecture));
    }
    // Pages that were computed with the one set must not be found by a server with the other.
    const bool is_long = n_ctx > n_ctx_short;
    arithmetics_.insert(is_long ? kLongRope : kShortRope);
    model_->rope_divisors_ = std::move(is_long ? of_long : of_short);
    return {};
  }

  Result<std::vector<float>> rope_divisors(const char* name) {
    const uint32_t n_pairs = model_->config_.ropes.front().n_dims / 2;
    TRY_ASSIGN(auto divisors, tensors_.floats({name, n_pairs}));
    tensors_.add_weight_bytes(n_pairs * sizeof(float));
    for (const float divisor : divisors) {
      if (!(divisor > 0)) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor '{}' holds {}, expected numbers > 0", name, divisor));
      }
    }
    return divisors;
  }

  ModelSource& source_;
  TensorLoader tensors_;
  std::unique_ptr<Model> model_{new Model};
  std::set<std::string_view> arithmetics_;
};

Result<std::unique_ptr<Model>> Model::load(ModelSource& source, Backend& backend,
                                           const Progress& progress, uint32_t n_ctx_max) {
  auto model = ModelLoader(source, backend, progress).load(n_ctx_max);
  if (!model) {
    return fail(model.error().code, fmt::format("{}: {}", source.label(), model.error().message));
  }
  return model;
}

KvGeometry kv_geometry(const ModelConfig& config, KvType type) {
  return {.type = type,
          .n_layers = group_layers(config).n_layers_per_page,
          .n_kv_heads = config.n_kv_heads,
          .head_dim = config.head_dim};
}

}  // namespace kvik
