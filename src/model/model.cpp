#include "model/model.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "model/fingerprint.h"
#include "model/layer_groups.h"
#include "model/weight_plan.h"
#include "tensor/blocks.h"
#include "tensor/tensor_digest.h"

namespace kvik {

// Takes tensors out of a source by name, checks their shapes and packs them. Lives for one load.
class ModelLoader {
 public:
  ModelLoader(ModelSource& source, Backend& backend, const Model::Progress& progress)
      : source_(source),
        backend_(backend),
        progress_(progress),
        fingerprint_(source),
        taken_(source.tensors().size()) {
    for (const TensorInfo& tensor : source.tensors()) all_bytes_ += tensor.n_bytes;
  }

  Result<std::unique_ptr<Model>> load() {
    TRY_ASSIGN(model_->config_, read_config(source_.metadata()));
    const ModelConfig& c = model_->config_;
    TRY(check_vocabulary());
    TRY_ASSIGN(model_->embedding_, matrix({{"token_embd.weight", c.n_vocab}}, c.model_dim));
    TRY_ASSIGN(model_->output_norm_, vector("output_norm.weight", c.model_dim));
    if (source_.find("output.weight")) {
      TRY_ASSIGN(model_->head_, matrix({{"output.weight", c.n_vocab}}, c.model_dim));
    }
    TRY(load_rope_divisors());
    for (uint32_t i = 0; i < c.n_layers; ++i) {
      TRY_ASSIGN(LayerWeights layer, load_layer(i));
      model_->layers_.push_back(std::move(layer));
    }
    TRY(check_all_taken());
    model_->fingerprint_ = fingerprint_.finish();
    model_->numerics_ = numerics(arithmetics_);
    model_->weight_kinds_ = weight_kinds(source_.tensors());
    return std::move(model_);
  }

 private:
  struct Part {
    std::string name;
    uint32_t n_rows;
  };

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
    const ModelConfig& c = model_->config_;
    const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", index, rest); };
    LayerWeights w;
    TRY_ASSIGN(w.attention_norm, vector(name("attn_norm.weight"), c.model_dim));
    TRY_ASSIGN(w.qkv, matrix({{name("attn_q.weight"), c.q_dim()},
                              {name("attn_k.weight"), c.kv_dim()},
                              {name("attn_v.weight"), c.kv_dim()}},
                             c.model_dim));
    if (c.has_qkv_bias) {
      TRY_ASSIGN(w.qkv_bias, vectors({{name("attn_q.bias"), c.q_dim()},
                                      {name("attn_k.bias"), c.kv_dim()},
                                      {name("attn_v.bias"), c.kv_dim()}}));
    }
    if (c.has_qk_norm) {
      TRY_ASSIGN(w.q_norm, vector(name("attn_q_norm.weight"), c.head_dim));
      TRY_ASSIGN(w.k_norm, vector(name("attn_k_norm.weight"), c.head_dim));
    }
    TRY_ASSIGN(w.output, matrix({{name("attn_output.weight"), c.model_dim}}, c.q_dim()));
    TRY_ASSIGN(w.ffn_norm, vector(name("ffn_norm.weight"), c.model_dim));
    TRY_ASSIGN(w.gate_up,
               matrix({{name("ffn_gate.weight"), c.ffn_dim}, {name("ffn_up.weight"), c.ffn_dim}},
                      c.model_dim));
    TRY_ASSIGN(w.down, matrix({{name("ffn_down.weight"), c.model_dim}}, c.ffn_dim));
    if (c.has_post_norms) {
      TRY_ASSIGN(w.post_attention_norm, vector(name("post_attention_norm.weight"), c.model_dim));
      TRY_ASSIGN(w.post_ffn_norm, vector(name("post_ffw_norm.weight"), c.model_dim));
    }
    return w;
  }

  Result<void> load_rope_divisors() {
    if (!source_.find("rope_freqs.weight")) return {};
    const uint32_t n_pairs = model_->config_.ropes.front().n_dims / 2;
    TRY_ASSIGN(model_->rope_divisors_, floats({"rope_freqs.weight", n_pairs}));
    model_->weight_bytes_ += n_pairs * sizeof(float);
    for (const float divisor : model_->rope_divisors_) {
      if (!(divisor > 0)) {
        return fail(
            ErrorCode::kCorrupt,
            fmt::format("tensor 'rope_freqs.weight' holds {}, expected numbers > 0", divisor));
      }
    }
    return {};
  }

  // The index of the tensor of that name, which must have this shape ([n] or [rows, columns]).
  Result<size_t> take(const std::string& name, std::initializer_list<uint64_t> shape) {
    const std::optional<size_t> index = source_.find(name);
    if (!index) return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
    const TensorInfo& info = source_.tensors()[*index];
    if (!std::equal(info.shape.begin(), info.shape.end(), shape.begin(), shape.end())) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' has the shape [{}], expected [{}]", name,
                              fmt::join(info.shape, ", "), fmt::join(shape, ", ")));
    }
    taken_[*index] = true;
    return *index;
  }

  Result<std::vector<float>> floats(const Part& part) {
    TRY_ASSIGN(const size_t index, take(part.name, {part.n_rows}));
    const TensorInfo& info = source_.tensors()[index];
    if (!can_dequantize(info.type)) return unsupported_type(info);
    TRY_ASSIGN(const auto bytes, source_.read(index));
    std::vector<float> values(part.n_rows);
    dequantize_row(info.type, bytes.data(), values);
    fingerprint_.add_tensors(digest_of({info.type, 1, part.n_rows, bytes}));
    done(index);
    return values;
  }

  // Vectors one behind the other, as f32.
  Result<Buffer> vectors(const std::vector<Part>& parts) {
    std::vector<float> all;
    for (const Part& part : parts) {
      TRY_ASSIGN(const std::vector<float> values, floats(part));
      all.insert(all.end(), values.begin(), values.end());
    }
    Buffer buffer = backend_.memory().allocate(all.size() * sizeof(float));
    backend_.memory().copy_in(buffer.data(), std::as_bytes(std::span(all)));
    model_->weight_bytes_ += buffer.size();
    return buffer;
  }

  Result<Buffer> vector(std::string name, uint32_t n) { return vectors({{std::move(name), n}}); }

  // Matrices stacked along their rows, packed together.
  Result<std::unique_ptr<PackedMatrix>> matrix(const std::vector<Part>& parts, uint32_t n_cols) {
    std::vector<size_t> indices;
    std::vector<TensorView> views;
    for (const Part& part : parts) {
      TRY_ASSIGN(const size_t index, take(part.name, {part.n_rows, n_cols}));
      const TensorInfo& info = source_.tensors()[index];
      if (!backend_.can_compute(info.type)) return unsupported_type(info);
      TRY_ASSIGN(const auto bytes, source_.read(index));
      if (const auto own = backend_.arithmetic(info.type); !own.empty()) arithmetics_.insert(own);
      indices.push_back(index);
      views.push_back({info.type, part.n_rows, n_cols, bytes});
    }
    TRY_ASSIGN(auto packed, backend_.pack(views));
    fingerprint_.add_tensors(packed->source_digest());
    for (const size_t index : indices) done(index);
    model_->weight_bytes_ += packed->bytes();
    return packed;
  }

  static std::unexpected<Error> unsupported_type(const TensorInfo& info) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is of type {}, expected f32, f16, bf16, q8_0, q4_0, q4_k, "
                            "q5_k or q6_k",
                            info.name, name_of(info.type)));
  }

  void done(size_t index) {
    source_.release(index);
    done_bytes_ += source_.tensors()[index].n_bytes;
    if (progress_) progress_(done_bytes_, all_bytes_);
  }

  // A tensor that nothing asked for means that the file holds more than we compute.
  Result<void> check_all_taken() const {
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i]) continue;
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor '{}' is not part of architecture '{}' as it is known here",
                              source_.tensors()[i].name, model_->config_.architecture));
    }
    return {};
  }

  ModelSource& source_;
  Backend& backend_;
  const Model::Progress& progress_;
  std::unique_ptr<Model> model_{new Model};
  Fingerprint fingerprint_;
  std::set<std::string_view> arithmetics_;
  std::vector<bool> taken_;
  uint64_t all_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

Result<std::unique_ptr<Model>> Model::load(ModelSource& source, Backend& backend,
                                           const Progress& progress) {
  auto model = ModelLoader(source, backend, progress).load();
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
