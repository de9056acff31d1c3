#include "engine/simulator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <unordered_map>

#include "backend/host_memory.h"
#include "base/check.h"
#include "engine/fcfs_scheduler.h"
#include "engine/schedule/queue_limit.h"
#include "support/manual_clock.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 64;  // pages have no contents

double ms_of(const SimulatedMachine& machine, const StepPlan& plan) {
  double ms = machine.step_ms;
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    const double depth = sequence->n_cached;
    ms += (depth + n_new) * machine.kv_token_ms;
    if (sequence->is_decoding()) {
      ms += machine.decode_row_ms;
    } else {
      ms += n_new * (machine.prefill_row_ms + (depth + n_new / 2.0) * machine.pair_ms);
    }
  }
  return ms / machine.speed;
}

template <class Value>
double quantile(std::vector<Value> values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

// A request in progress, as its client sees it.
struct Flight {
  size_t conversation = 0;
  double arrived_s = 0, last_token_s = 0, ttft_s = 0;
  uint32_t n_slow = 0;  // tokens later than the ITL SLO
  uint64_t n_steps_waited = 0;
  uint32_t n_known = 0;  // sealed pages
  SimulatedOutcome* tenant = nullptr;
};

template <class SchedulerT>
class Simulation {
 public:
  Simulation(std::vector<Conversation> conversations, const SimulationOptions& options)
      : options_(options),
        conversations_(std::move(conversations)),
        texts_(conversations_.size()),
        random_(options.seed),
        kv_(memory_, uint64_t{options.n_pages} * kPageBytes, KvLayout(kPageBytes), clock_),
        queue_(options.max_queue),
        scheduler_(kv_, options.scheduler) {}

  SimulationResult run() {
    for (size_t i = 0; i < conversations_.size(); ++i) {
      arrivals_.push({conversations_[i].begin_s, i});
      turns_left_.push_back(n_turns(conversations_[i]));
    }
    while (!arrivals_.empty() || !flights_.empty()) {
      if (flights_.empty()) now_s_ = std::max(now_s_, arrivals_.top().first);
      clock_.set(TimePoint{} + from_ms(now_s_ * 1e3));
      while (!arrivals_.empty() && arrivals_.top().first <= now_s_) arrive();
      if (!flights_.empty()) step();
    }
    finish();
    return std::move(result_);
  }

 private:
  static uint32_t n_turns(const Conversation& conversation) {
    const auto n_scripted = static_cast<uint32_t>(conversation.script.size());
    return n_scripted > 0 ? n_scripted : conversation.n_turns;
  }
  // Returns the script of the turn that is next or in progress; null without one.
  const ScriptedTurn* scripted(size_t index) const {
    const std::vector<ScriptedTurn>& script = conversations_[index].script;
    return script.empty() ? nullptr : &script[script.size() - turns_left_[index]];
  }

  // Submits the next turn of a conversation: all its earlier text and a new message. The queue may
  // reject it.
  void arrive() {
    const auto [at_s, index] = arrivals_.top();
    arrivals_.pop();
    const Conversation& conversation = conversations_[index];
    std::vector<TokenId>& text = texts_[index];
    const ScriptedTurn* script = scripted(index);
    if (script) {
      text = script->prompt_tokens();
    } else {
      extend(text, conversation);
    }
    SimulatedOutcome& tenant = tenants_[conversation.tenant];
    ++tenant.n_requests;
    auto place = queue_.enter(conversation.tenant);
    if (!place) {
      ++tenant.n_refused;
      text = {};
      return;
    }
    Request request;
    request.prompt = text;
    request.max_tokens = script ? script->answer.n : conversation.max_tokens;
    request.tenant = conversation.tenant;
    const TimePoint submitted = TimePoint{} + from_ms(at_s * 1e3);
    auto sequence = std::make_unique<Sequence>(QueuedRequest{
        RequestId{++n_requests_}, std::move(request), nullptr, std::move(*place), submitted});
    flights_[sequence.get()] = {.conversation = index, .arrived_s = at_s, .tenant = &tenant};
    result_.prompt_tokens += text.size();
    scheduler_.add(std::move(sequence));
  }

  void extend(std::vector<TokenId>& text, const Conversation& conversation) {
    if (text.empty()) {
      for (uint32_t i = 0; i < conversation.prefix_tokens; ++i) {
        text.push_back(conversation.prefix * 100'003 + i);
      }
    }
    for (uint32_t i = 0; i < conversation.own_tokens; ++i) text.push_back(next_own_token_++);
  }

  void step() {
    const StepPlan& plan = scheduler_.plan();
    CHECK(!plan.empty());
    const double ms = ms_of(options_.machine, plan) * noise();
    now_s_ += ms / 1e3;
    clock_.set(TimePoint{} + from_ms(now_s_ * 1e3));
    ++result_.n_steps;
    CHECK(kv_.counts().total() == options_.n_pages);
    entries_ = plan.entries;  // a copy, because sequences may be removed in the loop
    note_waits();
    accepted_.clear();
    for (const StepPlan::Entry& entry : entries_) accepted_.push_back(entry.n_new);
    scheduler_.commit(plan, accepted_);
    for (const StepPlan::Entry& entry : entries_) publish(*entry.sequence);
    scheduler_.observe(from_ms(ms));
  }

  // Counts the steps in which a sequence that has pages got neither a row nor a cached page.
  void note_waits() {
    for (auto& [sequence, flight] : flights_) ++flight.n_steps_waited;
    for (const auto& [sequence, n_new, n_wanted] : entries_)
      flights_.at(sequence).n_steps_waited = 0;
    for (auto& [sequence, flight] : flights_) {
      const uint32_t n_known = sequence->table.n_sealed();
      if (sequence->table.n_pages() == 0 || n_known != flight.n_known) flight.n_steps_waited = 0;
      flight.n_known = n_known;
      result_.longest_wait_steps = std::max(result_.longest_wait_steps, flight.n_steps_waited);
    }
  }

  double noise() {
    const SimulatedMachine& machine = options_.machine;
    std::normal_distribution<double> normal(1, machine.noise);
    std::uniform_real_distribution<double> uniform;
    const double factor = uniform(random_) < machine.outlier_share ? machine.outlier_factor : 1;
    return factor * std::max(0.5, normal(random_));
  }

  void publish(Sequence& sequence) {
    Flight& flight = flights_.at(&sequence);
    sequence.queue_place = {};
    if (sequence.n_pending() > 0) return;
    if (sequence.n_generated() == 0) {
      flight.ttft_s = now_s_ - flight.arrived_s;
    } else {
      const double itl_s = now_s_ - flight.last_token_s;
      flight.tenant->itl_s.push_back(static_cast<float>(itl_s));
      if (itl_s > options_.itl_slo_s) ++flight.n_slow;
    }
    flight.last_token_s = now_s_;
    const ScriptedTurn* script = scripted(flight.conversation);
    scheduler_.append(sequence,
                      script ? script->answer.first + sequence.n_generated() : next_own_token_++);
    ++result_.generated_tokens;
    const uint32_t n_answer =
        script ? script->answer.n : conversations_[flight.conversation].answer_tokens;
    if (sequence.n_generated() == n_answer) {
      land(sequence, flight);
    }
  }

  // Handles the end of an answer. The next turn may follow.
  void land(Sequence& sequence, const Flight& flight) {
    const bool is_good =
        flight.ttft_s <= options_.ttft_slo_s && flight.n_slow * 20 <= sequence.n_generated();
    flight.tenant->n_good += is_good ? 1 : 0;
    flight.tenant->ttft_s.push_back(flight.ttft_s);
    const size_t index = flight.conversation;
    texts_[index].clear();
    if (--turns_left_[index] == 0) {
      flight.tenant->whole_s.push_back(now_s_ - conversations_[index].begin_s);
    } else {
      const ScriptedTurn* script = scripted(index);
      if (!script) texts_[index] = sequence.tokens;
      arrivals_.push({now_s_ + (script ? script->pause_s : conversations_[index].think_s), index});
    }
    flights_.erase(&sequence);
    scheduler_.remove(sequence);
  }

  void finish() {
    CHECK(kv_.counts().leased + kv_.counts().sealed == 0);
    result_.simulated_s = now_s_;
    result_.n_preemptions = scheduler_.n_preemptions();
    result_.computed_tokens = scheduler_.n_prompt_tokens();
    result_.found_tokens = scheduler_.n_found_tokens();
    for (const auto& [name, outcome] : tenants_) {
      result_.all.n_requests += outcome.n_requests;
      result_.all.n_refused += outcome.n_refused;
      result_.all.n_good += outcome.n_good;
      result_.all.ttft_s.insert(result_.all.ttft_s.end(), outcome.ttft_s.begin(),
                                outcome.ttft_s.end());
      result_.all.whole_s.insert(result_.all.whole_s.end(), outcome.whole_s.begin(),
                                 outcome.whole_s.end());
      result_.all.itl_s.insert(result_.all.itl_s.end(), outcome.itl_s.begin(), outcome.itl_s.end());
      CHECK(outcome.ttft_s.size() + outcome.n_refused == outcome.n_requests);
    }
    result_.by_tenant.assign(tenants_.begin(), tenants_.end());
  }

  using Arrival = std::pair<double, size_t>;

  SimulationOptions options_;
  std::vector<Conversation> conversations_;
  std::vector<std::vector<TokenId>> texts_;
  std::vector<uint32_t> turns_left_;
  std::mt19937_64 random_;
  HostMemory memory_;
  ManualClock clock_;
  KvCache kv_;
  QueueLimit queue_;
  SchedulerT scheduler_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::unordered_map<const Sequence*, Flight> flights_;
  std::map<std::string, SimulatedOutcome> tenants_;
  std::vector<StepPlan::Entry> entries_;
  std::vector<uint32_t> accepted_;
  double now_s_ = 0;
  uint64_t n_requests_ = 0;
  TokenId next_own_token_ = 1'000'000'000;  // unique in the simulation
  SimulationResult result_;
};

}  // namespace

uint32_t ScriptedTurn::n_prompt() const {
  uint32_t n = 0;
  for (const TokenRun& run : prompt) n += run.n;
  return n;
}

std::vector<TokenId> ScriptedTurn::prompt_tokens() const {
  std::vector<TokenId> tokens;
  tokens.reserve(n_prompt() + answer.n);
  for (const TokenRun& run : prompt) {
    for (uint32_t i = 0; i < run.n; ++i) tokens.push_back(run.first + i);
  }
  return tokens;
}

double SimulatedOutcome::ttft_at(double share) const { return quantile(ttft_s, share); }
double SimulatedOutcome::itl_at(double share) const { return quantile(itl_s, share); }
double SimulatedOutcome::whole_at(double share) const { return quantile(whole_s, share); }

const SimulatedOutcome& SimulationResult::of(const std::string& tenant) const {
  const auto it =
      std::ranges::find(by_tenant, tenant, [](const auto& entry) { return entry.first; });
  CHECK(it != by_tenant.end());
  return it->second;
}

SimulationResult simulate(std::vector<Conversation> conversations,
                          const SimulationOptions& options) {
  if (options.policy == SimulatedPolicy::kFcfs) {
    return Simulation<FcfsScheduler>(std::move(conversations), options).run();
  }
  return Simulation<Scheduler>(std::move(conversations), options).run();
}

std::vector<Conversation> poisson(const PoissonTraffic& traffic) {
  std::mt19937_64 random(traffic.seed);
  std::exponential_distribution<double> gap(traffic.rate);
  std::vector<Conversation> conversations;
  for (double at_s = gap(random); at_s < traffic.seconds; at_s += gap(random)) {
    conversations.push_back(traffic.like);
    conversations.back().begin_s += at_s;
    conversations.back().prefix += static_cast<uint32_t>(random() % traffic.n_prefixes);
  }
  return conversations;
}

}  // namespace kvik
