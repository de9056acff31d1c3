#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Names of shared-expert tensors in GLM and DeepSeek folders.
inline constexpr FolderName kSharedExpertsNames[] = {
    {kSharedGate, "mlp.shared_experts.gate_proj.weight"},
    {kSharedUp, "mlp.shared_experts.up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};

}  // namespace kvik::families
