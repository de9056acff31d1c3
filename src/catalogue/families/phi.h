#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kPhiNames[] = {{kUp, "mlp.gate_up_proj.weight"}};
inline constexpr FolderType kPhi3Folders[] = {
    {.model_type = "phi3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = FolderWindow::kStated,
     .names = kPhiNames},
};

inline constexpr Family kPhiFamilies[] = {
    {.name = "phi3",
     .attention = {.is_fused = true},
     .rope = {.pairing = RopePairing::kHalves},
     .folders = kPhi3Folders},
};

}  // namespace kvik::families
