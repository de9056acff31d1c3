#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "format/model_source.h"

namespace kvik {

// The geometry of a well-known model, as in tools/make_model.py.
struct ModelPreset {
  const char* name;
  const char* architecture;
  uint32_t n_layers, model_dim, n_heads, n_kv_heads, head_dim, ffn_dim, n_ctx_train;
  float rope_base;
  uint32_t window;   // 0: none
  uint32_t n_vocab;  // of the real model
  bool tied_head;    // no output.weight: the embedding serves
};

std::span<const ModelPreset> model_presets();

// "synthetic:PRESET[:TYPE]" (TYPE f32, f16, bf16, q8_0, q4_0, q4_k, q5_k, q6_k, or llama.cpp's
// mixes q4_k_m and q5_k_m; q8_0 where it is left out): random weights of a real geometry, made
// tensor by tensor when they are read, and a byte-level toy vocabulary padded to the real size. The
// same name gives the same weights. Errors: kNotFound for an unknown preset (the message lists
// them), kInvalidArgument for a type.
Result<std::unique_ptr<ModelSource>> make_synthetic(std::string_view spec);

}  // namespace kvik
