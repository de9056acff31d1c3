#include "study/bench/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"
#include "host/load_draft.h"
#include "host/progress_bar.h"
#include "study/bench/replay_file.h"

namespace kvik {
namespace {

// Counts the running answers.
class CountingSink final : public EventSink {
 public:
  explicit CountingSink(uint32_t& n_running) : n_running_(n_running) { ++n_running_; }
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override { --n_running_; }

 private:
  uint32_t& n_running_;
};

// Sums over the measured steps.
struct Tally {
  uint64_t n_tokens = 0, n_accepted = 0, n_drafted = 0, n_sequence_steps = 0;
  double ms = 0;
  std::vector<double> step_ms;

  void add(const StepRecord& step, double taken_ms) {
    n_tokens += step.n_sequences + step.n_accepted;
    n_accepted += step.n_accepted;
    n_drafted += step.n_drafted;
    n_sequence_steps += step.n_sequences;
    ms += taken_ms;
    step_ms.push_back(taken_ms);
  }
  double tok_s() const { return 1e3 * static_cast<double>(n_tokens) / ms; }
  double p99_ms() {
    const auto at = step_ms.begin() + static_cast<ptrdiff_t>((step_ms.size() - 1) * 99 / 100);
    std::nth_element(step_ms.begin(), at, step_ms.end());
    return *at;
  }
};

class Replayer {
 public:
  Replayer(Engine& engine, uint32_t batch) : engine_(engine), batch_(batch) {}

  // Runs the turns, `batch` at a time: when one ends, the next begins.
  void run(std::span<const ReplayTurn> turns, Request::Speculate speculate, const std::string& salt,
           Tally& tally) {
    uint32_t n_running = 0;
    size_t next = 0;
    while (next < turns.size() || n_running > 0) {
      while (n_running < batch_ && next < turns.size()) {
        engine_.submit(RequestId{++n_submitted_}, request_of(turns[next++], speculate, salt),
                       std::make_shared<CountingSink>(n_running));
      }
      const TimePoint begin = clock_.now();
      if (!engine_.step()) break;
      const double taken_ms = to_ms(clock_.now() - begin);
      const StepRecord step = engine_.snapshot().last_step;
      if (step.n_prefill_rows == 0 && step.n_sequences == batch_) tally.add(step, taken_ms);
    }
  }

 private:
  static Request request_of(const ReplayTurn& turn, Request::Speculate speculate,
                            const std::string& salt) {
    Request request;
    request.prompt = turn.prompt;
    request.script = turn.answer;
    request.max_tokens = static_cast<uint32_t>(turn.answer.size());
    request.sampling.temperature = 0;
    request.speculate = speculate;
    request.cache_salt = salt;
    return request;
  }

  Engine& engine_;
  uint32_t batch_;
  SteadyClock clock_;
  uint64_t n_submitted_ = 0;
};

ReplayResult run_batch(Engine& engine, std::span<const ReplayTurn> turns, uint32_t batch,
                       uint32_t repeat) {
  static uint64_t n_runs = 0;
  Replayer replayer(engine, batch);
  Tally on, off;
  ProgressBar bar("replaying");
  for (uint32_t i = 0; i < repeat; ++i) {
    ++n_runs;
    // Runs two rounds of answers at a time in each mode, so that both modes run under the same load
    // of the machine.
    const size_t n_block = std::max<size_t>(batch > 1 ? 2 * batch : 1, 1);
    for (size_t begin = 0; begin < turns.size(); begin += n_block) {
      const auto block = turns.subspan(begin, std::min(n_block, turns.size() - begin));
      bar.show(i * turns.size() + begin, repeat * turns.size(), fmt::format("batch {}", batch));
      replayer.run(block, Request::Speculate::kOff, fmt::format("off {}", n_runs), off);
      replayer.run(block, Request::Speculate::kOn, fmt::format("on {}", n_runs), on);
    }
  }
  bar.show(repeat * turns.size(), repeat * turns.size(), "");
  ReplayResult result{.mode = {}, .batch = batch, .n_tokens = on.n_tokens};
  if (on.n_tokens == 0 || off.n_tokens == 0) return result;
  const auto n_steps = static_cast<double>(on.n_sequence_steps);
  result.tok_s = on.tok_s();
  result.tok_s_off = off.tok_s();
  result.accepted_per_step = static_cast<double>(on.n_accepted) / n_steps;
  result.drafted_per_step = static_cast<double>(on.n_drafted) / n_steps;
  result.step_ms_p99 = on.p99_ms();
  result.step_ms_p99_off = off.p99_ms();
  return result;
}

Result<std::vector<ReplayTurn>> read_turns(const ReplayOptions& options,
                                           const LoadedModel& loaded) {
  if (options.tokenizer.empty()) return read_replay(options.file, *loaded.tokenizer);
  TRY_ASSIGN(const auto source, open_model(options.tokenizer));
  TRY_ASSIGN(const auto tokenizer, Tokenizer::from_metadata(source->metadata()));
  const uint32_t n_vocab = loaded.model->config().n_vocab;
  if (tokenizer->n_vocab() > n_vocab) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} tokens, expected at most the model's {}", options.tokenizer,
                            tokenizer->n_vocab(), n_vocab));
  }
  return read_replay(options.file, *tokenizer);
}

// Returns options with pages for 4 * users + 4 sequences of the longest turn.
EngineOptions engine_options(const LoadedModel& loaded, std::span<const ReplayTurn> turns,
                             uint64_t max_users) {
  uint64_t n_longest = 1;
  for (const ReplayTurn& turn : turns) {
    n_longest = std::max<uint64_t>(n_longest, turn.prompt.size() + turn.answer.size());
  }
  return {.kv_budget_bytes = loaded.kv().budget(n_longest + kPageTokens, 4 * max_users + 4),
          .kv_type = loaded.kv_type,
          .n_ctx_max = static_cast<uint32_t>(loaded.n_ctx)};
}

Result<void> check(const Engine& engine, std::span<const ReplayTurn> turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    Request request;
    request.prompt = turns[i].prompt;
    request.max_tokens = static_cast<uint32_t>(turns[i].answer.size());
    const auto checked = engine.check(request);
    if (checked) continue;
    return fail(checked.error().code,
                fmt::format("turn {} of the replay: {}", i + 1, checked.error().message));
  }
  return {};
}

}  // namespace

Result<std::vector<ReplayResult>> replay(const ModelOptions& model, const ReplayOptions& options,
                                         const std::vector<uint64_t>& batches, uint32_t repeat) {
  std::vector<ReplayResult> results;
  for (const ReplayMode& mode : options.modes) {
    TRY_ASSIGN(LoadedModel loaded, load_model(model));
    if (!options.draft.empty()) TRY(load_draft(options.draft, loaded, EngineOptions{}.max_running));
    TRY_ASSIGN(const auto turns, read_turns(options, loaded));
    EngineOptions all = engine_options(loaded, turns, *std::ranges::max_element(batches));
    all.speculation = mode.options;
    const SteadyClock clock;
    TRY_ASSIGN(const auto engine, Engine::create(std::move(loaded.model), *loaded.backend, all,
                                                 clock, std::move(loaded.draft)));
    TRY(check(*engine, turns));
    for (const uint64_t batch : batches) {
      results.push_back(run_batch(*engine, turns, static_cast<uint32_t>(batch), repeat));
      results.back().mode = mode.name;
      if (results.back().n_tokens > 0) continue;
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has {} turns, too few for --batch {}", options.file, turns.size(),
                              batch));
    }
  }
  return results;
}

std::string replay_json(const std::vector<ReplayResult>& results) {
  std::string out = "[";
  for (const ReplayResult& r : results) {
    fmt::format_to(
        std::back_inserter(out),
        "{}\n  {{\"test\":\"replay\",\"speculate\":\"{}\",\"batch\":{},\"tokens\":{},"
        "\"tok_s\":{:.3f},\"tok_s_off\":{:.3f},\"ratio\":{:.4f},\"accepted_per_step\":{:.4f},"
        "\"drafted_per_step\":{:.4f},\"step_ms_p99\":{:.3f},\"step_ms_p99_off\":{:.3f}}}",
        &r == results.data() ? "" : ",", r.mode, r.batch, r.n_tokens, r.tok_s, r.tok_s_off,
        r.ratio(), r.accepted_per_step, r.drafted_per_step, r.step_ms_p99, r.step_ms_p99_off);
  }
  return out + "\n]\n";
}

std::string replay_table(const std::vector<ReplayResult>& results) {
  std::string out = fmt::format("{:<10}{:>7}{:>9}{:>11}{:>11}{:>8}{:>12}{:>11}\n", "speculate",
                                "batch", "tokens", "tok/s", "off", "ratio", "accepted", "drafted");
  for (const ReplayResult& r : results) {
    fmt::format_to(std::back_inserter(out),
                   "{:<10}{:>7}{:>9}{:>11.1f}{:>11.1f}{:>8.2f}{:>12.2f}{:>11.2f}\n", r.mode,
                   r.batch, r.n_tokens, r.tok_s, r.tok_s_off, r.ratio(), r.accepted_per_step,
                   r.drafted_per_step);
  }
  return out + "accepted, drafted: draft tokens per sequence and step\n";
}

}  // namespace kvik
