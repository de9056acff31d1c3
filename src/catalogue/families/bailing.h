#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Ling and Ring 2.0. Transformers does not know their folders.
inline constexpr Family kBailingFamilies[] = {
    {.name = "bailingmoe2",
     .attention = {.qk_norm = QkNorm::kHead, .is_fused = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kOptional},
     .mtp_layer = usual_mtp_layer},
};

}  // namespace kvik::families
