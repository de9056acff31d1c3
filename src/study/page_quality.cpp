#include "study/page_quality.h"

#include <fmt/format.h>

namespace kvik {
namespace {

double divergence_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return 0;
    case KvType::kBF16:
      return 0.0002;
    case KvType::kInt8:
      return 0.0003;
    case KvType::kInt8Int4:
      return 0.0035;
    case KvType::kInt4:
      break;
  }
  return 0.01;
}

}  // namespace

PageQuality quality_of(KvType type) {
  constexpr double kNearLossless = 0.001, kSmallLoss = 0.02;
  const double divergence = divergence_of(type);
  const char* const name = divergence == 0               ? "exact"
                           : divergence <= kNearLossless ? "near lossless"
                           : divergence <= kSmallLoss    ? "small loss"
                                                         : "noticeable loss";
  return {name, divergence};
}

std::string quality_text(KvType type) {
  const PageQuality quality = quality_of(type);
  if (quality.divergence == 0) return quality.name;
  return fmt::format("{}: KL {}", quality.name, quality.divergence);
}

}  // namespace kvik
