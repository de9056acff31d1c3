#include "server/dialects/cache_explanation.h"

#include <boost/json/object.hpp>

namespace kvik {
namespace {

namespace json = boost::json;

CacheReport what_may_be_told(CacheReport report, CacheReach reach) {
  if (reach == CacheReach::kStrangers) report.expected.reset();
  return report;
}

json::value miss_json(const CacheReport& report) {
  if (report.miss == MissReason::kNone) return nullptr;
  const std::string_view reason = name_of(report.miss);
  json::object out;
  out["reason"] = json::value(reason);
  if (report.position) out["position"] = *report.position;
  if (report.expected) out["expected_token"] = *report.expected;
  if (report.got) out["got_token"] = *report.got;
  return out;
}

json::object usage_explained(const Usage& usage, CacheReach reach) {
  const CacheReport report = what_may_be_told(usage.cache, reach);
  return {{"prompt_tokens", usage.prompt_tokens},
          {"cached_tokens", {{"ram", report.ram_tokens}, {"tiers", report.tier_tokens}}},
          {"computed_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"miss", miss_json(report)}};
}

}  // namespace

json::array explanation_json(std::span<const Usage> usages, CacheReach reach) {
  json::array out;
  for (const Usage& usage : usages) out.emplace_back(usage_explained(usage, reach));
  return out;
}

}  // namespace kvik
