// Simulates hours of traffic in seconds, with the real scheduler and page pool on a modeled
// machine.
//   bench_simulate [SCENARIO…] [--sessions FILE] [--mooncake FILE] [--azure FILE]
//   bench_simulate --agents-each SECONDS…
// The second form varies how often an agent begins. Prints one row per scenario and policy, and for
// recorded traces the hits by eviction policy. The tables in docs/reference/performance.md are its
// output.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/agent_gaps.h"
#include "engine/simulator.h"
#include "eviction_replay.h"
#include "request_trace.h"

namespace kvik {
namespace {

struct Policy {
  const char* name;
  SimulatedPolicy policy = SimulatedPolicy::kKvik;
  bool has_target = true;
};

const std::vector<Policy> kPolicies = {{.name = "FCFS", .policy = SimulatedPolicy::kFcfs},
                                       {.name = "Kvik, no ITL target", .has_target = false},
                                       {.name = "Kvik"}};

struct Scenario {
  std::string name;
  std::vector<Conversation> conversations;
  SimulationOptions options = {};
  bool has_all_policies = true;
};

void append(std::vector<Conversation>& to, std::vector<Conversation> from) {
  to.insert(to.end(), from.begin(), from.end());
}

Conversation chat() { return {.prefix_tokens = 1024, .own_tokens = 64, .answer_tokens = 64}; }

Scenario poisson_hour() {
  return {"Poisson: 1.5 chats/s, 4 system prompts, 1 h",
          poisson({.like = chat(), .rate = 1.5, .seconds = 3600, .n_prefixes = 4})};
}

Scenario long_prompts_hour() {
  Scenario scenario{"Poisson 0.6/s and a prompt of 6,000 tokens a minute, 1 h",
                    poisson({.like = chat(), .rate = 0.6, .seconds = 3600, .n_prefixes = 4})};
  append(scenario.conversations,
         poisson({.like = {.prefix = 100, .own_tokens = 6000, .answer_tokens = 64},
                  .rate = 1.0 / 60,
                  .seconds = 3600,
                  .seed = 2}));
  return scenario;
}

Scenario bursts_hour() {
  Scenario scenario{"Bursts: 20 chats within 1 s, every 20 s, 1 h", {}};
  for (int burst = 0; burst < 180; ++burst) {
    Conversation like = chat();
    like.begin_s = burst * 20;
    append(scenario.conversations, poisson({.like = like,
                                            .rate = 20,
                                            .seconds = 1,
                                            .n_prefixes = 4,
                                            .seed = 100 + static_cast<uint64_t>(burst)}));
  }
  return scenario;
}

// 20 turns per conversation with contexts of up to 9,000 tokens, and memory for six such contexts.
Scenario agents(std::string name, double gap_s) {
  Scenario scenario{std::move(name), {}};
  scenario.options.n_pages = 1700;
  for (uint32_t i = 0; i < 30; ++i) {
    scenario.conversations.push_back({.begin_s = i * gap_s,
                                      .prefix = 1,
                                      .prefix_tokens = 2000,
                                      .own_tokens = 250,
                                      .answer_tokens = 100,
                                      .max_tokens = 400,
                                      .n_turns = 20,
                                      .think_s = 5});
  }
  return scenario;
}

Scenario agents_hour() { return agents("30 agents, one more each 33 s", 33); }

Scenario crowded_agents_hour() {
  return agents("30 agents, one more each 27 s: too many for the memory", 27);
}

Scenario growth_hour() {
  return {"Short prompts, long answers (1,000 asked, 400 made), little memory",
          poisson({.like = {.own_tokens = 32, .answer_tokens = 400, .max_tokens = 1000},
                   .rate = 0.7,
                   .seconds = 3600}),
          {.n_pages = 160}};
}

Scenario abuser_hour() {
  Scenario scenario{"6 tenants, 0.1 chats/s each, and one that floods (3/s, 1,500 tokens)", {}};
  scenario.options.scheduler.max_running = 16;
  scenario.options.max_queue = 32;
  for (uint32_t user = 0; user < 6; ++user) {
    append(scenario.conversations,
           poisson({.like = {.tenant = std::string(1, static_cast<char>('a' + user)),
                             .prefix = user,
                             .prefix_tokens = 512,
                             .own_tokens = 64,
                             .answer_tokens = 64},
                    .rate = 0.1,
                    .seconds = 3600,
                    .seed = 10 + user}));
  }
  append(scenario.conversations, poisson({.like = {.tenant = "flood",
                                                   .prefix = 999,
                                                   .own_tokens = 1500,
                                                   .answer_tokens = 64,
                                                   .max_tokens = 64},
                                          .rate = 3,
                                          .seconds = 3600,
                                          .seed = 99}));
  return scenario;
}

Scenario overload_hour() {
  Scenario scenario{"10x overload: 25 chats/s, 10 min",
                    poisson({.like = chat(), .rate = 25, .seconds = 600, .n_prefixes = 4})};
  scenario.options.scheduler.max_running = 16;
  scenario.options.max_queue = 4;
  return scenario;
}

Scenario large_scale() {
  Scenario scenario{"100,000 requests on a machine 64 times as fast",
                    poisson({.like = chat(), .rate = 100, .seconds = 1000, .n_prefixes = 64})};
  scenario.options.machine.speed = 64;
  scenario.options.scheduler.max_step_tokens = 4096;
  scenario.options.scheduler.max_running = 256;
  scenario.options.n_pages = 40'000;
  return scenario;
}

void print(const char* name, const SimulationResult& result, double wall_s) {
  const SimulatedOutcome& all = result.all;
  fmt::print(
      "| {} | {:.3f} | {:.1f}% | {:.2f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} | {:.0f} | {} | "
      "{:.1f}% | {} | {:.0f} | {:.0f} | {:.1f} |\n",
      name, result.goodput(),
      100.0 * static_cast<double>(all.n_good) / static_cast<double>(all.n_requests),
      all.ttft_at(0.5), all.ttft_at(0.99), all.ttft_at(1), 1e3 * all.itl_at(0.5),
      1e3 * all.itl_at(0.99), static_cast<double>(result.generated_tokens) / result.simulated_s,
      result.n_preemptions,
      100.0 * static_cast<double>(result.found_tokens) / static_cast<double>(result.prompt_tokens),
      all.n_refused, all.whole_at(0.5), all.whole_at(0.99), wall_s);
}

void run(const Scenario& scenario) {
  fmt::print("\n{} ({} conversations)\n\n", scenario.name, scenario.conversations.size());
  fmt::print(
      "| policy | goodput [1/s] | good | TTFT p50 [s] | p99 | worst | ITL p50 [ms] | p99 | output "
      "tok/s | preemptions | found | refused | conversation p50 [s] | p99 | wall [s] |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Policy& policy : kPolicies) {
    if (!scenario.has_all_policies && !policy.has_target) continue;
    SimulationOptions options = scenario.options;
    options.policy = policy.policy;
    if (!policy.has_target) options.scheduler.itl_target.reset();
    const auto begin = std::chrono::steady_clock::now();
    const SimulationResult result = simulate(scenario.conversations, options);
    print(policy.name, result, to_s(std::chrono::steady_clock::now() - begin));
    if (result.by_tenant.size() == 1) continue;
    for (const auto& [tenant, outcome] : result.by_tenant) {
      fmt::print(
          "|   … {} | | {:.1f}% | {:.2f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} | | | | {} | | | |\n",
          tenant,
          100.0 * static_cast<double>(outcome.n_good) / static_cast<double>(outcome.n_requests),
          outcome.ttft_at(0.5), outcome.ttft_at(0.99), outcome.ttft_at(1),
          1e3 * outcome.itl_at(0.5), 1e3 * outcome.itl_at(0.99), outcome.n_refused);
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("\npeak memory of the process: {} MiB\n", usage.ru_maxrss / 1024);
  std::fflush(stdout);
}

// A recorded trace, and the machine that serves it. Lengths are an eighth of the recorded ones.
struct Recorded {
  const char* flag;
  const char* name;
  std::vector<Conversation> (*read)(const std::string& path, const TraceScale& scale);
  TraceScale scale;
  double machine_speed;
};
const std::vector<Recorded> kRecorded = {{"--sessions",
                                          "Agent sessions, every 32nd, one more each 120 s",
                                          read_sessions,
                                          {.every = 32, .gap_s = 120},
                                          4},
                                         {"--mooncake",
                                          "Mooncake, 4,000 requests at half the speed",
                                          read_mooncake,
                                          {.n_max = 4000, .speed = 0.5},
                                          8},
                                         {"--azure",
                                          "Azure, 4,000 requests at half the speed",
                                          read_azure,
                                          {.n_max = 4000, .speed = 0.5},
                                          4}};

constexpr uint32_t kMemoryParts[] = {8, 4, 2, 1};

void print_evictions(const EvictionReplay& replay) {
  fmt::print("| memory | LRU | Kvik | clairvoyant |\n|---|---|---|---|\n");
  for (const uint32_t part : kMemoryParts) {
    const EvictionResult result = replay.run(replay.n_pages() / part);
    const auto percent = [&](uint64_t n) { return 100.0 * n / result.n_prompt; };
    fmt::print("| 1/{} | {:.2f}% | {:.2f}% | {:.2f}% |\n", part, percent(result.n_lru),
               percent(result.n_kvik), percent(result.n_belady));
  }
}

void run_recorded(const Recorded& recorded, const std::string& path) {
  const std::vector<Conversation> conversations = recorded.read(path, recorded.scale);
  if (conversations.empty()) {
    fmt::print(stderr, "cannot read {}\n", path);
    return;
  }
  const EvictionReplay replay(conversations);
  fmt::print("\n{}: {} requests, {} pages\n\n", recorded.name, replay.n_requests(),
             replay.n_pages());
  print_evictions(replay);
  std::fflush(stdout);
  for (const uint32_t part : kMemoryParts) {
    Scenario scenario{fmt::format("{}, 1/{} of the memory", recorded.name, part), conversations};
    scenario.options.machine.speed = recorded.machine_speed;
    // The longest request must fit, with its last token and a page to spare.
    scenario.options.n_pages = std::max(replay.n_pages() / part, replay.n_longest() + 2);
    scenario.options.max_queue = UINT32_MAX;
    scenario.has_all_policies = false;
    run(scenario);
  }
}

// Agents that outgrow the memory, with the same seeds for each policy.
void run_agents(double gap_s) {
  for (const uint64_t seed : {1, 2, 3}) {
    Scenario scenario =
        agents(fmt::format("30 agents, one more each {} s, seed {}", gap_s, seed), gap_s);
    scenario.options.seed = seed;
    run(scenario);
  }
}

struct Named {
  const char* name;
  Scenario (*make)();
};
const std::vector<Named> kScenarios = {
    {"poisson", poisson_hour}, {"long", long_prompts_hour},      {"bursts", bursts_hour},
    {"agents", agents_hour},   {"crowded", crowded_agents_hour}, {"growth", growth_hour},
    {"abuser", abuser_hour},   {"overload", overload_hour},      {"scale", large_scale}};

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  std::vector<std::string> wanted(argv + 1, argv + argc);
  bool has_traces = false;
  for (const kvik::Recorded& recorded : kvik::kRecorded) {
    const auto flag = std::ranges::find(wanted, recorded.flag);
    if (flag == wanted.end() || flag + 1 == wanted.end()) continue;
    kvik::run_recorded(recorded, *(flag + 1));
    wanted.erase(flag, flag + 2);
    has_traces = true;
  }
  if (const auto flag = std::ranges::find(wanted, "--agents-each"); flag != wanted.end()) {
    const auto gaps_s = kvik::read_agent_gaps({flag + 1, wanted.end()});
    if (!gaps_s) {
      fmt::print(stderr, "bench_simulate: {}\n", gaps_s.error().message);
      return 2;
    }
    for (const double gap_s : *gaps_s) kvik::run_agents(gap_s);
    return 0;
  }
  if (has_traces && wanted.empty()) return 0;
  for (const kvik::Named& scenario : kvik::kScenarios) {
    if (wanted.empty() || std::ranges::count(wanted, scenario.name) > 0) {
      kvik::run(scenario.make());
    }
  }
}
