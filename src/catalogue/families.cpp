#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "catalogue/families/apertus.h"
#include "catalogue/families/arcee.h"
#include "catalogue/families/bailing.h"
#include "catalogue/families/bert.h"
#include "catalogue/families/cohere.h"
#include "catalogue/families/deepseek.h"
#include "catalogue/families/ernie.h"
#include "catalogue/families/exaone.h"
#include "catalogue/families/experts/dots.h"
#include "catalogue/families/experts/minicpm.h"
#include "catalogue/families/gemma.h"
#include "catalogue/families/glm.h"
#include "catalogue/families/gpt.h"
#include "catalogue/families/gpt_oss.h"
#include "catalogue/families/granite.h"
#include "catalogue/families/hunyuan.h"
#include "catalogue/families/laguna.h"
#include "catalogue/families/llama.h"
#include "catalogue/families/llama4.h"
#include "catalogue/families/mimo.h"
#include "catalogue/families/minimax.h"
#include "catalogue/families/mistral.h"
#include "catalogue/families/muse.h"
#include "catalogue/families/olmo.h"
#include "catalogue/families/phi.h"
#include "catalogue/families/qwen.h"
#include "catalogue/families/recurrent/bailing_hybrid.h"
#include "catalogue/families/recurrent/falcon_h1.h"
#include "catalogue/families/recurrent/jamba.h"
#include "catalogue/families/recurrent/kimi_linear.h"
#include "catalogue/families/recurrent/lfm.h"
#include "catalogue/families/recurrent/nemotron.h"
#include "catalogue/families/recurrent/qwen_delta.h"
#include "catalogue/families/seed_oss.h"
#include "catalogue/families/smollm.h"
#include "catalogue/families/sparse/deepseek4.h"
#include "catalogue/families/sparse/deepseek_sparse.h"
#include "catalogue/families/sparse/glm5_next.h"
#include "catalogue/families/sparse/minimax_sparse.h"
#include "catalogue/families/sparse/mistral_large4.h"
#include "catalogue/families/sparse/qwen4_exp.h"
#include "catalogue/families/step.h"
#include "catalogue/family.h"

namespace kvik {
namespace {

using namespace families;

template <size_t... n>
consteval auto joined(const Family (&... lists)[n]) {
  std::array<const Family*, (n + ...)> all{};
  size_t i = 0;
  const auto add = [&](const auto& list) {
    for (const Family& family : list) all[i++] = &family;
  };
  (add(lists), ...);
  return all;
}

constexpr auto kFamilies =
    joined(kLlamaFamilies, kQwenFamilies, kQwenDeltaFamilies, kQwen4ExpFamilies, kGemmaFamilies,
           kPhiFamilies, kGraniteFamilies, kOlmoFamilies, kMistralFamilies, kGlmFamilies,
           kMinimaxFamilies, kMinimaxSparseFamilies, kDeepseekFamilies, kDeepseekSparseFamilies,
           kDeepseek4Families, kGlm5NextFamilies, kMistralLarge4Families, kLfmFamilies,
           kNemotronFamilies, kGptOssFamilies, kSmolLmFamilies, kSeedOssFamilies, kExaoneFamilies,
           kErnieFamilies, kHunyuanFamilies, kDotsFamilies, kMiniCpmFamilies, kArceeFamilies,
           kApertusFamilies, kCohereFamilies, kMuseFamilies, kBailingFamilies, kGptFamilies,
           kLlama4Families, kLagunaFamilies, kMimoFamilies, kStepFamilies, kFalconH1Families,
           kJambaFamilies, kKimiLinearFamilies, kBailingHybridFamilies, kBertFamilies);

// Returns the names of the families that `takes` accepts, for messages.
template <class Takes>
std::string names_of(const Takes& takes) {
  std::vector<std::string_view> names;
  for (const Family* family : all_families()) {
    if (takes(*family)) names.push_back(family->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::span<const Family* const> all_families() { return kFamilies; }

const Family* find_family(std::string_view architecture) {
  for (const Family* family : all_families()) {
    if (family->name == architecture) return family;
  }
  return nullptr;
}

std::string known_architectures() {
  return names_of([](const Family&) { return true; });
}

std::string families_with_experts() {
  return names_of([](const Family& family) { return family.experts.has_value(); });
}

FamilyFolder find_folder_type(std::string_view model_type) {
  for (const Family* family : all_families()) {
    for (const FolderType& type : family->folders) {
      if (type.model_type == model_type) return {family, &type};
    }
  }
  return {};
}

const FolderType* find_text_type(std::string_view multimodal_type) {
  if (multimodal_type.empty()) return nullptr;
  for (const Family* family : all_families()) {
    for (const FolderType& type : family->folders) {
      if (type.multimodal_type == multimodal_type) return &type;
    }
  }
  return nullptr;
}

namespace {

std::string_view name_among(std::span<const FolderName> names, TensorRole role) {
  for (const FolderName& name : names) {
    if (name.role == role) return name.name;
  }
  return usual_folder_name(role);
}

}  // namespace

std::string_view folder_name(const FolderType& type, TensorRole role) {
  return name_among(type.names, role);
}

std::string_view other_folder_name(const FolderType& type, TensorRole role) {
  for (const FolderName& name : type.other_names) {
    if (name.role == role) return name.name;
  }
  return {};
}

std::string_view mtp_folder_name(const FolderType& type, TensorRole role) {
  for (const FolderName& name : type.mtp->names) {
    if (name.role == role) return name.name;
  }
  return folder_name(type, role);
}

bool is_folder_name(const Family& family, TensorRole role, std::string_view name) {
  const bool has_modules = family.folders.empty() || !family.modules.empty();
  if (has_modules && name_among(family.modules, role) == name) return true;
  return std::ranges::any_of(family.folders, [&](const FolderType& type) {
    if (role == TensorRole::kAttentionOutput && type.other_output == name && !name.empty()) {
      return true;
    }
    return name_among(type.names, role) == name;
  });
}

std::string known_model_types() {
  std::vector<std::string_view> names;
  for (const Family* family : all_families()) {
    for (const FolderType& type : family->folders) {
      names.push_back(type.model_type);
      if (!type.multimodal_type.empty()) names.push_back(type.multimodal_type);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace kvik
