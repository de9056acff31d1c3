#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kStarcoder2Names[] = {
    {kUp, "mlp.c_fc.weight"},
    {kUpBias, "mlp.c_fc.bias"},
    {kDown, "mlp.c_proj.weight"},
    {kDownBias, "mlp.c_proj.bias"},
};
inline constexpr FolderKey kStarcoder2Keys[] = {{"norm_epsilon", "layer_norm_eps"}};
inline constexpr FolderType kStarcoder2Folders[] = {
    {.model_type = "starcoder2",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true})",
     .keys = kStarcoder2Keys,
     .fixed = R"({"use_bias": true, "norm_type": "layer_norm", "mlp_type": "default"})",
     .window = FolderWindow::kStated,
     .names = kStarcoder2Names},
};

inline constexpr Family kStarcoderFamilies[] = {
    {.name = "starcoder2",
     .activation = Activation::kPlainGeluTanh,
     .attention = {.qkv_bias = Presence::kAlways, .output_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .mlp_bias = Presence::kAlways,
     .folders = kStarcoder2Folders},
};

}  // namespace kvik::families
