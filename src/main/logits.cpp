#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "host/load_adapter.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "main/tier_options.h"

namespace kvik {
namespace {

struct LogitsOptions {
  ModelOptions model;
  TierOptions tiers;
  std::string tokens;
  bool all = false;
  uint64_t chunk = 0;
  uint32_t beside = 0;
  std::vector<std::string> adapters_beside;
  bool no_cache = false;
};

// Prints the logits of each position on one line. %.9g represents every float32 exactly.
class PrintingSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override { finished_ = true; }
  void on_logits(uint32_t, std::span<const float> logits) override {
    line_.clear();
    for (const float logit : logits) {
      char number[32];
      std::snprintf(number, sizeof(number), "%.9g ", static_cast<double>(logit));
      line_ += number;
    }
    line_.back() = '\n';
    streams::write(line_);
  }
  bool finished() const { return finished_; }

 private:
  std::string line_;
  bool finished_ = false;
};

class SilentSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override {}
};

// Returns another sequence for --beside, with different tokens and a different length. Even indices
// have a short prompt and soon decode; odd indices have a long prompt that is computed in small
// chunks.
Request neighbour(uint32_t index, uint32_t n_tokens, uint32_t n_vocab) {
  Request request;
  const bool decodes = index % 2 == 0;
  const uint32_t n_prompt = decodes ? 1 + index % 3 : n_tokens + 3 + index;
  for (uint32_t i = 0; i < n_prompt; ++i) {
    request.prompt.push_back((i * 7919 + index * 104729 + 17) % n_vocab);
  }
  request.max_tokens = n_tokens + 8;
  request.max_chunk = decodes ? UINT32_MAX : 3 + 2 * index;
  request.sampling.seed = index;
  return request;
}

Result<int> logits(const LogitsOptions& options) {
  TRY_ASSIGN(const std::vector<TokenId> tokens, parse_token_list(options.tokens));
  TRY_ASSIGN(const auto tiers, options.tiers.open());
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  std::vector<std::shared_ptr<const Adapter>> beside = {nullptr};
  for (const std::string& text : options.adapters_beside) {
    TRY_ASSIGN(auto adapter,
               load_adapter(text, {*loaded.model, *loaded.backend, options.model.model}));
    beside.push_back(std::move(adapter));
  }
  const auto n_tokens = static_cast<uint32_t>(tokens.size());
  // The budget holds all sequences, so they all run in one batch.
  const uint64_t n_longest = 2 * uint64_t{n_tokens} + options.beside + 64;
  if (n_tokens > loaded.n_ctx) {
    return fail(ErrorCode::kContextLength,
                fmt::format("{} tokens do not fit the context of {}", n_tokens, loaded.n_ctx));
  }
  const SteadyClock clock;
  EngineOptions engine_options{
      .kv_budget_bytes = loaded.kv().budget(n_longest, 2 + options.beside, tiers.places()),
      .kv_type = options.model.kv_type,
      .n_ctx_max = static_cast<uint32_t>(n_longest),
      .max_step_tokens = std::max(512u, 2 * n_tokens + 8 * (options.beside + 1)),
      .max_running = 1 + options.beside,
      .tiers = tiers.places()};
  TRY_ASSIGN(auto engine,
             Engine::create(std::move(loaded.model), *loaded.backend, engine_options, clock));

  Request request;
  request.adapter = loaded.adapter;
  request.logits = options.all ? Request::Logits::kAll : Request::Logits::kLast;
  request.max_tokens = 0;
  if (options.chunk > 0)
    request.max_chunk = static_cast<uint32_t>(std::min<uint64_t>(options.chunk, UINT32_MAX));
  const auto submit = [&](uint64_t id, Request r, std::shared_ptr<EventSink> sink) -> Result<void> {
    TRY(engine->check(r));
    engine->submit(RequestId{id}, std::move(r), std::move(sink));
    return {};
  };
  for (uint32_t i = 0; i < options.beside; ++i) {
    Request other = neighbour(i, n_tokens, engine->limits().n_vocab);
    other.adapter = beside[i % beside.size()];
    TRY(submit((uint64_t{1} << 32) + i, std::move(other), std::make_shared<SilentSink>()));
  }
  // Without the cache, each position is a separate run over all tokens up to it.
  const bool one_by_one = options.no_cache && options.all;
  if (options.no_cache) request.logits = Request::Logits::kLast;
  for (uint32_t n = one_by_one ? 1 : n_tokens; n <= n_tokens; ++n) {
    request.prompt.assign(tokens.begin(), tokens.begin() + n);
    const auto sink = std::make_shared<PrintingSink>();
    TRY(submit(n, request, sink));
    while (!sink->finished()) {
      if (!engine->step()) engine->wait_for_tier(std::chrono::milliseconds(20));
    }
  }
  return kExitOk;
}

}  // namespace

void add_logits(CommandLine& line) {
  auto options = std::make_shared<LogitsOptions>();
  Flags flags = line.add("logits", "Print the logits after a list of tokens",
                         [options] { return finish(logits(*options)); });
  add_model_flags(flags, options->model);
  add_adapter_flag(flags, options->model);
  flags.add(
      "Computation",
      {
          Flag("--tokens", &options->tokens, "token ids, separated by commas").required(),
          {"--all", &options->all, "print a line for every position instead of the last one only"},
          {"--chunk", as_count(options->chunk), "prefill in chunks of N tokens"},
          Flag("--beside", &options->beside, "compute N other sequences in the same batches")
              .between(0u, 64u),
          Flag("--adapter-beside", &options->adapters_beside,
               "adapters of the sequences of --beside, assigned in turn, starting with none")
              .called("PATH[:SCALE],…"),
          {"--no-cache", &options->no_cache, "compute every position from scratch"},
      });
  options->tiers.add_to(flags);
  flags.examples({
      "kvik logits model.gguf --tokens 1,2,3",
      "kvik logits model.gguf --tokens 1,2,3 --all --no-cache",
  });
}

}  // namespace kvik
