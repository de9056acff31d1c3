#include "service/attest/attested_request.h"

#include <algorithm>
#include <span>
#include <variant>

#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

// Adds a list preceded by its length.
void add_ids(Sha256& sha, std::span<const TokenId> ids) {
  sha.add_number(ids.size());
  sha.add(std::as_bytes(ids));
}

void add_sampling(Sha256& sha, const SamplingParams& sampling) {
  for (const SamplingField& field : sampling_fields()) {
    const auto add = [&](const auto& number) {
      const auto value = number.of(sampling);
      sha.add(std::as_bytes(std::span(&value, 1)));
    };
    std::visit(add, field.number);
  }
  sha.add_number(sampling.logit_bias.size());
  for (const auto& [id, bias] : sampling.logit_bias) {
    sha.add_number(id);
    sha.add(std::as_bytes(std::span(&bias, 1)));
  }
  sha.add_number(sampling.banned.size());
  for (const auto& ids : sampling.banned) add_ids(sha, ids);
  sha.add_number(sampling.order ? sampling.order->size() : UINT64_MAX);
  if (sampling.order) sha.add(std::as_bytes(std::span(*sampling.order)));
  const auto breakers = sorted_breakers(sampling.dry);
  sha.add_number(breakers.size());
  for (const auto& ids : breakers) add_ids(sha, ids);
  sha.add_number(sampling.seed);
}

}  // namespace

std::vector<std::vector<TokenId>> sorted_breakers(const DryParams& dry) {
  std::vector<std::vector<TokenId>> all;
  if (!dry.is_on() || !dry.breakers) return all;
  for (const auto& [first, rests] : *dry.breakers) {
    for (const auto& rest : rests) {
      std::vector<TokenId>& ids = all.emplace_back(1, first);
      ids.insert(ids.end(), rest.begin(), rest.end());
    }
  }
  std::ranges::sort(all);
  return all;
}

Hash128 hash_of(const AttestedRequest& request) {
  Sha256 sha;
  add_ids(sha, request.prompt);
  add_sampling(sha, request.sampling);
  sha.add_number(request.min_tokens);
  add_ids(sha, request.stop_tokens);
  sha.add_text(request.adapter);
  sha.add_number(request.is_constrained);
  return xxh3_128(sha.finish());
}

}  // namespace kvik
