#include "service/attest/logits_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "service/attest/attested_request.h"

namespace kvik {
namespace {

using Links = std::vector<LogitsChain::Link>;

AttestedRequest some_request() {
  AttestedRequest request;
  request.prompt = {1, 2, 3};
  request.sampling.seed = 7;
  request.stop_tokens = {9};
  return request;
}

Links links_of(const AttestedRequest& request, uint32_t choice, const std::vector<TokenId>& ids,
               std::vector<float> logits) {
  LogitsChain chain(hash_of(request), choice);
  Links links;
  for (const TokenId id : ids) {
    links.push_back(chain.add(id, logits));
    for (float& logit : logits) logit += 1;
  }
  return links;
}

TEST(LogitsChain, is_the_same_for_the_same_answer) {
  const AttestedRequest request = some_request();
  EXPECT_EQ(links_of(request, 0, {4, 5}, {0.5f, -1}), links_of(request, 0, {4, 5}, {0.5f, -1}));
}

TEST(LogitsChain, differs_from_the_first_changed_token_on) {
  const AttestedRequest request = some_request();
  const Links links = links_of(request, 0, {4, 5, 6}, {0.5f, -1});
  const Links changed = links_of(request, 0, {4, 8, 6}, {0.5f, -1});
  EXPECT_EQ(links[0], changed[0]);
  EXPECT_NE(links[1], changed[1]);
  EXPECT_NE(links[2], changed[2]);
}

TEST(LogitsChain, has_an_end_that_depends_on_all_of_it) {
  LogitsChain chain(hash_of(some_request()), 0);
  std::set<LogitsChain::Link> seen = {chain.end(true), chain.end(false)};
  chain.add(4, std::vector<float>{0.5f});
  seen.insert({chain.end(true), chain.end(false)});
  EXPECT_EQ(seen.size(), 4);
}

TEST(LogitsChain, depends_on_every_bit_of_the_logits) {
  const AttestedRequest request = some_request();
  const float next = std::nextafter(0.5f, 1.0f);
  std::set<LogitsChain::Link> seen;
  for (const std::vector<float>& logits : {std::vector<float>{0.5f, 0.0f},
                                           {next, 0.0f},
                                           {0.5f, -0.0f},
                                           {0.5f, std::numeric_limits<float>::denorm_min()},
                                           {0.5f, 0.0f, 0.0f}}) {
    seen.insert(links_of(request, 0, {4}, logits).front());
  }
  EXPECT_EQ(seen.size(), 5);
}

TEST(LogitsChain, depends_on_everything_in_the_request) {
  const std::function<void(AttestedRequest&)> changes[] = {
      [](AttestedRequest& r) { r.prompt.back() = 4; },
      [](AttestedRequest& r) { r.prompt.push_back(9), r.stop_tokens.clear(); },
      [](AttestedRequest& r) { r.sampling.temperature = 0.5f; },
      [](AttestedRequest& r) { r.sampling.top_k = 40; },
      [](AttestedRequest& r) { r.sampling.top_p = 0.5f; },
      [](AttestedRequest& r) { r.sampling.min_p = 0.5f; },
      [](AttestedRequest& r) { r.sampling.repetition_penalty = 1.5f; },
      [](AttestedRequest& r) { r.sampling.presence_penalty = 0.5f; },
      [](AttestedRequest& r) { r.sampling.frequency_penalty = 0.5f; },
      [](AttestedRequest& r) {
        r.sampling.logit_bias = {{1, 2.0f}};
      },
      [](AttestedRequest& r) {
        r.sampling.logit_bias = {{1, 3.0f}};
      },
      [](AttestedRequest& r) { r.sampling.typical_p = 0.5f; },
      [](AttestedRequest& r) { r.sampling.top_n_sigma = 1; },
      [](AttestedRequest& r) { r.sampling.penalty_last_n = 64; },
      [](AttestedRequest& r) { r.sampling.xtc.probability = 0.5f; },
      [](AttestedRequest& r) { r.sampling.xtc.threshold = 0.2f; },
      [](AttestedRequest& r) { r.sampling.dynamic_temperature.range = 0.5f; },
      [](AttestedRequest& r) { r.sampling.mirostat.version = 2; },
      [](AttestedRequest& r) { r.sampling.dry.multiplier = 1; },
      [](AttestedRequest& r) {
        r.sampling.dry.multiplier = 1;
        r.sampling.dry.breakers = std::make_shared<DryBreakers>(DryBreakers{{5, {{}}}});
      },
      [](AttestedRequest& r) {
        r.sampling.dry.multiplier = 1;
        r.sampling.dry.breakers = std::make_shared<DryBreakers>(DryBreakers{{5, {{6}}}});
      },
      [](AttestedRequest& r) {
        r.sampling.banned = {{1, 2}};
      },
      [](AttestedRequest& r) {
        r.sampling.banned = {{1}, {2}};
      },
      [](AttestedRequest& r) { r.sampling.order.emplace(); },
      [](AttestedRequest& r) {
        r.sampling.order = {SamplerKind::kTopK, SamplerKind::kMinP};
      },
      [](AttestedRequest& r) { r.sampling.seed = 8; },
      [](AttestedRequest& r) { r.min_tokens = 1; },
      [](AttestedRequest& r) { r.stop_tokens.push_back(10); },
      [](AttestedRequest& r) { r.adapter = "ab"; },
      [](AttestedRequest& r) { r.is_constrained = true; },
  };
  std::set<LogitsChain::Link> seen = {links_of(some_request(), 0, {4}, {0.5f}).front(),
                                      links_of(some_request(), 1, {4}, {0.5f}).front()};
  for (const auto& change : changes) {
    AttestedRequest request = some_request();
    change(request);
    seen.insert(links_of(request, 0, {4}, {0.5f}).front());
  }
  EXPECT_EQ(seen.size(), 2 + std::size(changes));
}

}  // namespace
}  // namespace kvik
