#include "server/dialects/cache/cache_explanation.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "server/dialects/cache/changing_part.h"

namespace kvik {
namespace {

namespace json = boost::json;

CacheReport revealed(CacheReport report, CacheReach reach) {
  if (reach == CacheReach::kOtherTenants) report.expected.reset();
  return report;
}

json::value miss_json(const Usage& usage, const CacheReport& report,
                      const std::optional<TextAround>& text) {
  if (report.miss == MissReason::kNone) return nullptr;
  const std::string_view reason = name_of(report.miss);
  json::object out;
  out["reason"] = json::value(reason);
  if (report.position) out["position"] = *report.position;
  if (report.expected) out["expected_token"] = *report.expected;
  if (report.got) out["got_token"] = *report.got;
  if (report.miss == MissReason::kNoSnapshot) {
    out["says"] =
        fmt::format("resumed at {} of {}: the nearest snapshot",
                    fmt::group_digits(usage.cached_tokens), fmt::group_digits(usage.prompt_tokens));
  }
  if (!text) return out;
  out["text"] = {{"before", text->before}, {"behind", text->after}};
  if (const auto part = changing_part(*text); !part.empty()) out["looks_like"] = json::value(part);
  return out;
}

json::object usage_explained(const Usage& usage, CacheReach reach,
                             const std::optional<TextAround>& text) {
  const CacheReport report = revealed(usage.cache, reach);
  return {{"prompt_tokens", usage.prompt_tokens},
          {"cached_tokens", {{"ram", report.ram_tokens}, {"tiers", report.tier_tokens}}},
          {"computed_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"restored_tokens", usage.restored_tokens},
          {"miss", miss_json(usage, report, text)}};
}

}  // namespace

json::array explanation_json(std::span<const Usage> usages, CacheReach reach,
                             const FindText& find_text) {
  json::array out;
  for (size_t i = 0; i < usages.size(); ++i) {
    const CacheReport& report = usages[i].cache;
    const bool has_text = find_text && report.position && report.miss == MissReason::kDiverged;
    out.emplace_back(usage_explained(usages[i], reach,
                                     has_text ? find_text(i, *report.position) : std::nullopt));
  }
  return out;
}

}  // namespace kvik
