#include "service/pooling_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>

#include "support/tiny_service.h"

namespace kvik {
namespace {

using Pooling = EmbeddingRequest::Pooling;

struct FutureSink final : EmbeddingSink {
  void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) override {
    got.set_value({std::move(embedding), usage});
  }
  std::promise<std::pair<std::optional<std::vector<float>>, Usage>> got;
};

EmbeddingRequest request_of(uint32_t n_tokens, Pooling pooling = Pooling::kMean) {
  EmbeddingRequest request;
  for (uint32_t i = 0; i < n_tokens; ++i) request.engine.prompt.push_back(4 + i * 7 % 90);
  request.pooling = pooling;
  return request;
}

std::pair<std::vector<float>, Usage> embed(Service& service, const EmbeddingRequest& request) {
  const auto sink = std::make_shared<FutureSink>();
  auto result = sink->got.get_future();
  const auto running = service.embed(request, sink);
  EXPECT_TRUE(running.has_value());
  const auto [embedding, usage] = result.get();
  EXPECT_TRUE(embedding.has_value());
  return {embedding.value_or(std::vector<float>()), usage};
}

double length_of(const std::vector<float>& v) {
  double square = 0;
  for (const float x : v) square += double{x} * double{x};
  return std::sqrt(square);
}

TEST(Embedding, its_length_is_1) {
  ServiceRig rig;
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast})
    EXPECT_NEAR(length_of(embed(rig.service(), request_of(40, pooling)).first), 1, 1e-6);
}

TEST(Embedding, other_texts_and_other_poolings_are_other_points) {
  ServiceRig rig;
  const auto mean = embed(rig.service(), request_of(40)).first;
  EXPECT_NE(mean, embed(rig.service(), request_of(41)).first);
  EXPECT_NE(mean, embed(rig.service(), request_of(40, Pooling::kLast)).first);
  EXPECT_EQ(embed(rig.service(), request_of(1)).first,
            embed(rig.service(), request_of(1, Pooling::kLast)).first);
}

TEST(Embedding, cls_is_the_first_tokens_state) {
  ServiceRig rig;
  const auto first = embed(rig.service(), request_of(40, Pooling::kCls)).first;
  EXPECT_EQ(first, embed(rig.service(), request_of(1, Pooling::kLast)).first);
  EXPECT_NE(first, embed(rig.service(), request_of(40, Pooling::kLast)).first);
}

TEST(Embedding, norms_divide_the_mean) {
  ServiceRig rig;
  using Kind = EmbeddingRequest::Norm::Kind;
  const auto with = [&](const EmbeddingRequest::Norm& norm) {
    EmbeddingRequest request = request_of(40);
    request.norm = norm;
    return embed(rig.service(), request).first;
  };
  const auto raw = with({.kind = Kind::kNone});
  double sum = 0, most = 0;
  for (const float x : raw) {
    sum += std::abs(x);
    most = std::max(most, double{std::abs(x)});
  }
  const auto unit = with({});
  const auto taxicab = with({.kind = Kind::kP, .p = 1});
  const auto int16 = with({.kind = Kind::kMaxInt16});
  for (size_t i = 0; i < raw.size(); ++i) {
    EXPECT_NEAR(unit[i], raw[i] / length_of(raw), 1e-6);
    EXPECT_NEAR(taxicab[i], raw[i] / sum, 1e-6);
    EXPECT_NEAR(int16[i], raw[i] / most * 32760, 1e-2);
  }
}

TEST(Embedding, a_longer_text_is_cut_if_the_request_says_so) {
  ServiceRig rig;
  EmbeddingRequest request = request_of(50);
  request.truncate_to = 20;
  const auto cut = embed(rig.service(), request);
  EXPECT_EQ(cut.first, embed(rig.service(), request_of(20)).first);
  EXPECT_EQ(cut.second.prompt_tokens, 20u);
}

TEST(Embedding, scores_need_a_classifier) {
  ServiceRig rig;
  const auto refused =
      rig.service().embed(request_of(5, Pooling::kRank), std::make_shared<FutureSink>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().param, "pooling");
}

TEST(Embedding, it_is_the_same_bits_whatever_the_cache_holds_and_the_step_computes) {
  ServiceRig rig;
  const auto first = embed(rig.service(), request_of(100));
  const auto again = embed(rig.service(), request_of(100));
  EXPECT_EQ(first.first, again.first);
  EXPECT_EQ(again.second.cached_tokens, 0u);  // a cached prefix has no hidden states
  for (const uint32_t n_rows : {1u, 7u, 33u}) {
    TinyEngineOptions options;
    options.max_step_tokens = n_rows;
    ServiceRig other(options);
    EXPECT_EQ(first.first, embed(other.service(), request_of(100)).first) << n_rows;
  }
}

TEST(Embedding, other_requests_do_not_change_it) {
  ServiceRig rig;
  const auto alone = embed(rig.service(), request_of(60)).first;
  CompletionRequest busy = letters_request(200);
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto running = rig.service().complete(busy, sink);
  std::vector<std::shared_ptr<FutureSink>> sinks;
  std::vector<std::unique_ptr<Completion>> others;
  for (uint32_t i = 0; i < 5; ++i) {
    sinks.push_back(std::make_shared<FutureSink>());
    auto other = rig.service().embed(request_of(58 + i), sinks.back());
    ASSERT_TRUE(other.has_value());
    others.push_back(std::move(*other));
  }
  EXPECT_EQ(sinks[2]->got.get_future().get().first, alone);
}

TEST(Embedding, fewer_dimensions_are_the_first_ones_at_length_1) {
  ServiceRig rig;
  const auto whole = embed(rig.service(), request_of(40)).first;
  EmbeddingRequest request = request_of(40);
  request.n_dims = 5;
  const auto cut = embed(rig.service(), request).first;
  ASSERT_EQ(cut.size(), 5u);
  EXPECT_NEAR(length_of(cut), 1, 1e-6);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(cut[i] / cut[0], whole[i] / whole[0], 1e-4);
}

TEST(Embedding, dimensions_that_there_are_not_are_refused) {
  ServiceRig rig;
  const auto whole = embed(rig.service(), request_of(4)).first;
  for (const auto n_dims : {0u, static_cast<uint32_t>(whole.size()) + 1}) {
    EmbeddingRequest request = request_of(4);
    request.n_dims = n_dims;
    const auto refused = rig.service().embed(request, std::make_shared<FutureSink>());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().param, "dimensions");
  }
}

TEST(Embedding, a_canceled_one_ends) {
  ServiceRig rig;
  const auto sink = std::make_shared<FutureSink>();
  { const auto running = rig.service().embed(request_of(200), sink); }
  sink->got.get_future().wait();  // it ends, completed or canceled
  EXPECT_TRUE(rig.drain());
}

}  // namespace
}  // namespace kvik
