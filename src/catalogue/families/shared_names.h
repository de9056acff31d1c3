#pragma once

#include <array>
#include <cstddef>

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Names of shared-expert tensors in folders of GLM, DeepSeek and others.
inline constexpr FolderName kSharedExpertsNames[] = {
    {kSharedGate, "mlp.shared_experts.gate_proj.weight"},
    {kSharedUp, "mlp.shared_experts.up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};

// Returns these names and some more.
template <size_t n>
consteval auto with_shared_experts(const FolderName (&more)[n]) {
  std::array<FolderName, std::size(kSharedExpertsNames) + n> all{};
  size_t i = 0;
  for (const FolderName& name : kSharedExpertsNames) all[i++] = name;
  for (const FolderName& name : more) all[i++] = name;
  return all;
}

// Returns DeepSeek's names of an MTP layer with others in place of some.
template <size_t n>
consteval auto with_mtp_names(const FolderName (&others)[n]) {
  std::array<FolderName, std::size(kUsualMtpNames) + n> all{};
  size_t i = 0;
  for (const FolderName& name : others) all[i++] = name;
  for (const FolderName& name : kUsualMtpNames) all[i++] = name;
  return all;
}

}  // namespace kvik::families
