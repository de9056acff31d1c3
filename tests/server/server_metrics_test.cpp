#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kPath = "/v1/completions";

class ServerMetrics : public ServerFixture {
 protected:
  // Returns the value of each name with labels, without the label that all samples have.
  std::map<std::string, double> samples() {
    const RawResponse response = client().get("/metrics");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    std::map<std::string, double> samples;
    std::istringstream lines(response.body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#")) continue;
      const size_t blank = line.rfind(' ');
      std::string name = line.substr(0, blank);
      for (const std::string model :
           {"{model_name=\"tiny/model\"}", "model_name=\"tiny/model\","}) {
        const size_t at = name.find(model);
        if (at != std::string::npos) name.erase(at, model.size());
      }
      EXPECT_FALSE(samples.contains(name)) << line;
      samples[name] = std::stod(line.substr(blank + 1));
    }
    return samples;
  }
};

TEST_F(ServerMetrics, the_snapshots_values_have_our_names_and_vllms) {
  EngineSnapshot now;
  now.n_running = 3;
  now.n_waiting = 2;
  now.pages = {.free = 4, .leased = 3, .sealed = 2, .cached = 1};
  now.page_bytes = 1000;
  now.prompt_tokens = 70;
  now.cached_tokens = 30;
  now.generated_tokens = 11;
  now.preemptions = 5;
  now.evictions = 6;
  now.finished = {7, 8, 9, 10};
  now.kv_budget_bytes = 12'000;
  now.kv_bytes = {10'000, 500, 250};
  service.show(now);
  auto got = samples();
  EXPECT_EQ(got.at("kvik_requests_running"), 3);
  EXPECT_EQ(got.at("vllm:num_requests_running"), 3);
  EXPECT_EQ(got.at("vllm:num_requests_waiting"), 2);
  EXPECT_EQ(got.at("kvik_kv_pages{state=\"leased\"}"), 3);
  EXPECT_EQ(got.at("kvik_kv_bytes{state=\"cached\"}"), 1000);
  EXPECT_EQ(got.at("kvik_kv_budget_bytes"), 12'000);
  EXPECT_EQ(got.at("kvik_kv_reserved_bytes{kind=\"pages\"}"), 10'000);
  EXPECT_EQ(got.at("vllm:kv_cache_usage_perc"), 0.5);
  EXPECT_EQ(got.at("kvik_prompt_tokens_total{source=\"computed\"}"), 70);
  EXPECT_EQ(got.at("vllm:prompt_tokens_total"), 100);
  EXPECT_EQ(got.at("vllm:prefix_cache_queries_total"), 100);
  EXPECT_EQ(got.at("vllm:prefix_cache_hits_total"), 30);
  EXPECT_EQ(got.at("vllm:generation_tokens_total"), 11);
  EXPECT_EQ(got.at("kvik_preemptions_total"), 5);
  EXPECT_EQ(got.at("kvik_evicted_pages_total"), 6);
  EXPECT_EQ(got.at("kvik_requests_finished_total{reason=\"stop\"}"), 7);
  EXPECT_EQ(got.at("kvik_requests_finished_total{reason=\"failed\"}"), 10);
  EXPECT_EQ(got.at("vllm:cache_config_info{block_size=\"32\",cache_dtype=\"int8\","
                   "enable_prefix_caching=\"True\",num_cpu_blocks=\"0\",num_gpu_blocks=\"128\"}"),
            1);
}

TEST_F(ServerMetrics, a_tier_is_shown_if_there_is_one) {
  EXPECT_FALSE(samples().contains("kvik_tier_up{tier=\"disk\"}"));
  EngineSnapshot now;
  TierCounters& tier = now.tiers[static_cast<size_t>(TierKind::kRedis)];
  tier = {.is_on = true, .size = {.n_pages = 7, .n_bytes = 900, .n_evictions = 3}};
  tier.pages_read = 5;
  tier.hit_tokens = 160;
  tier.misses_damaged = 2;
  service.show(now);
  auto got = samples();
  EXPECT_EQ(got.at("kvik_tier_up{tier=\"redis\"}"), 1);
  EXPECT_EQ(got.at("kvik_tier_pages{tier=\"redis\"}"), 7);
  EXPECT_EQ(got.at("kvik_tier_pages_total{tier=\"redis\",direction=\"read\"}"), 5);
  EXPECT_EQ(got.at("kvik_tier_hit_tokens_total{tier=\"redis\"}"), 160);
  EXPECT_EQ(got.at("kvik_tier_misses_total{tier=\"redis\",reason=\"damaged\"}"), 2);
  EXPECT_EQ(got.at("kvik_tier_evicted_pages_total{tier=\"redis\"}"), 3);
  tier.is_degraded = true;
  service.show(now);
  EXPECT_EQ(samples().at("kvik_tier_up{tier=\"redis\"}"), 0);
}

TEST_F(ServerMetrics, a_histogram_is_cumulative_and_ends_with_all) {
  EngineSnapshot now;
  for (const double value : {0.00005, 0.010, 0.012, 1e9}) now.histograms.itl_s.record(value);
  service.show(now);
  auto got = samples();
  for (const std::string name :
       {"kvik_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"}) {
    EXPECT_EQ(got.at(name + "_count"), 4);
    EXPECT_NEAR(got.at(name + "_sum"), 1e9, 1);
    EXPECT_EQ(got.at(name + "_bucket{le=\"0.0001\"}"), 1);
    EXPECT_EQ(got.at(name + "_bucket{le=\"0.0128\"}"), 3);
    EXPECT_EQ(got.at(name + "_bucket{le=\"+Inf\"}"), 4);
  }
}

TEST_F(ServerMetrics, answers_are_counted_by_status_and_rejections_by_reason) {
  client().get("/version");
  client().get("/version");
  client().get("/nowhere");
  service.refuse({ErrorCode::kExhausted, "the queue is full"});
  client().post(kPath, R"({"prompt":"a"})");
  auto got = samples();
  EXPECT_EQ(got.at("kvik_http_responses_total{code=\"200\"}"), 2);
  EXPECT_EQ(got.at("kvik_http_responses_total{code=\"404\"}"), 1);
  EXPECT_EQ(got.at("kvik_http_responses_total{code=\"429\"}"), 1);
  EXPECT_EQ(got.at("kvik_rejected_total{reason=\"queue_full\"}"), 1);
  EXPECT_EQ(got.at("kvik_rejected_total{reason=\"connections\"}"), 0);
  EXPECT_GE(got.at("kvik_http_connections"), 1);
}

TEST_F(ServerMetrics, metrics_need_a_key_if_the_server_has_keys) {
  options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "a"}};
  expect_error(client().get("/metrics"), 401);
  EXPECT_EQ(client().get("/metrics", "x-api-key: k\r\n").status, 200);
}

TEST_F(ServerMetrics, a_key_sees_its_own_lines_and_an_operators_key_all) {
  options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "ann"},
                                         {.secret = "l", .name = "bob"},
                                         {.secret = "o", .name = "ops", .is_operator = true}};
  const auto page = [&](const std::string& key) {
    return client().get("/metrics", "x-api-key: " + key + "\r\n").body;
  };
  const auto lines_of_ann = [](const std::string& text) {
    std::istringstream lines(text);
    size_t n = 0, n_of_ann = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#")) continue;
      ++n;
      if (line.find(R"(key="ann")") != std::string::npos) ++n_of_ann;
    }
    return std::pair(n_of_ann, n);
  };
  EXPECT_EQ(lines_of_ann(page("k")), std::pair(size_t{3}, size_t{3}));
  EXPECT_EQ(lines_of_ann(page("l")), std::pair(size_t{0}, size_t{3}));
  EXPECT_NE(page("o").find("kvik_kv_pages"), std::string::npos);
  EXPECT_EQ(lines_of_ann(page("o")).first, 3u);
}

TEST_F(ServerMetrics, a_full_queue_returns_retry_after) {
  service.refuse({ErrorCode::kExhausted, "the queue is full"});
  const auto retry_after = [&](double wait_s) {
    EngineSnapshot now;
    now.queue_wait_s = wait_s;
    service.show(now);
    const RawResponse response = client().post(kPath, R"({"prompt":"a"})");
    expect_error(response, 429);
    EXPECT_EQ(string_at(json(response.body), "/error/code"), "overloaded");
    return response.header("retry-after");
  };
  EXPECT_EQ(retry_after(0), "1");
  EXPECT_EQ(retry_after(3.2), "4");
  EXPECT_EQ(retry_after(1e12), "120");
}

}  // namespace
}  // namespace kvik
