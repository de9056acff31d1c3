#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine_thread.h"
#include "main/commands.h"
#include "main/disk_options.h"
#include "main/interrupts.h"
#include "main/model_options.h"
#include "main/progress_bar.h"
#include "service/service.h"

namespace kvik {
namespace {

struct RunOptions {
  ModelOptions model;
  DiskOptions disk;
  std::string prompt;
  bool has_prompt = false;
  std::optional<std::string> tokens;
  uint64_t max_tokens = 256;
  std::string stop;
  SamplingParams sampling;
  std::optional<uint64_t> seed;
  bool ids = false;
  bool stats = false;
  bool ignore_eos = false;
  bool no_cache = false;
};

// Writes a completion to stdout as it comes. The engine thread calls; main waits for the end.
class StdoutSink final : public CompletionSink {
 public:
  explicit StdoutSink(bool ids) : ids_(ids) {}

  void on_chunk(const CompletionChunk& chunk) override {
    std::string text = chunk.text;
    if (ids_) {
      text.clear();
      for (const TokenId id : chunk.token_ids) {
        text += fmt::format("{}{}", is_first_ ? "" : " ", id);
        is_first_ = false;
      }
    }
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      write_error_ = errno;
      Interrupts::notify();
    }
    if (chunk.finish) reason_ = *chunk.finish;
  }

  void on_prompt(uint32_t n_done, uint32_t n_all) override {
    bar_.show(n_done, n_all, fmt::format("{} of {} tokens", n_done, n_all));
  }

  void on_done(const Usage& usage) override {
    usage_ = usage;
    Interrupts::notify();
  }

  // Once notified: no more calls come.
  const Usage& usage() const { return usage_; }
  FinishReason reason() const { return reason_; }

  // errno of a write that failed; 0 while stdout takes all.
  int write_error() const { return write_error_; }

 private:
  const bool ids_;
  ProgressBar bar_{"reading the prompt"};
  std::atomic<int> write_error_ = 0;
  bool is_first_ = true;
  FinishReason reason_ = FinishReason::kStop;
  Usage usage_;
};

void print_stats(const Usage& usage) {
  const double ttft_ms = to_ms(usage.ttft);
  const double decode_ms = to_ms(usage.decode_time);
  const uint32_t n_decoded = usage.completion_tokens > 1 ? usage.completion_tokens - 1 : 0;
  fmt::print(stderr,
             "prompt {} tokens ({} cached: {} in memory, {} on disk), TTFT {:.1f} ms; {} tokens "
             "generated, ITL {:.2f} ms, "
             "{:.1f} tok/s\n",
             usage.prompt_tokens, usage.cached_tokens,
             usage.cached_tokens - usage.cache.disk_tokens, usage.cache.disk_tokens, ttft_ms,
             usage.completion_tokens, n_decoded ? decode_ms / n_decoded : 0.0,
             decode_ms > 0 ? n_decoded * 1e3 / decode_ms : 0.0);
}

Result<CompletionRequest> make_request(const RunOptions& options) {
  CompletionRequest request;
  if (options.tokens) {
    TRY_ASSIGN(request.prompt, parse_token_list(*options.tokens));
  } else if (options.has_prompt) {
    request.prompt = options.prompt;
  } else if (::isatty(STDIN_FILENO) == 0) {
    request.prompt = std::string(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    return fail(ErrorCode::kInvalidArgument,
                "no prompt: give --prompt TEXT or --tokens 1,2,3, or pipe a text in");
  }
  request.sampling = options.sampling;
  request.seed = options.seed;
  request.max_tokens = options.max_tokens;
  if (!options.stop.empty()) request.stop = {options.stop};
  request.ignore_eos = options.ignore_eos;
  request.return_token_ids = options.ids;
  request.cache = options.no_cache ? Request::Cache::kOff : Request::Cache::kUse;
  return request;
}

Result<int> run(const RunOptions& options) {
  TRY_ASSIGN(const CompletionRequest request, make_request(options));
  TRY_ASSIGN(const auto disk, options.disk.open());
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  const SteadyClock clock;
  const uint64_t n_ctx =
      options.model.n_ctx ? options.model.n_ctx : loaded.model->config().n_ctx_train;
  EngineOptions engine_options{
      .kv_budget_bytes = kv_budget_beside(disk.get(), loaded, options.model.kv_type,
                                          kv_bytes_for(loaded, options.model.kv_type, n_ctx, 1)),
      .kv_type = options.model.kv_type,
      .n_ctx_max = static_cast<uint32_t>(n_ctx),
      .tier = disk.get()};
  ModelCard card;
  card.id = model_id(options.model.model);
  card.n_vocab = loaded.model->config().n_vocab;
  TRY_ASSIGN(auto engine,
             Engine::create(std::move(loaded.model), *loaded.backend, engine_options, clock));
  EngineThread engine_thread(std::move(engine));
  Service service(*loaded.tokenizer, engine_thread, std::move(card));

  Interrupts::catch_them();
  const auto sink = std::make_shared<StdoutSink>(options.ids);
  TRY_ASSIGN(auto completion, service.complete(request, sink));
  if (Interrupts::wait()) return kExitInterrupted;       // the completion's end cancels it
  if (sink->write_error() == EPIPE) return kExitFailed;  // the reader has seen enough
  if (sink->write_error() != 0) {
    return fail(ErrorCode::kIo,
                fmt::format("cannot write the answer: {}", std::strerror(sink->write_error())));
  }
  if (options.ids || ::isatty(STDOUT_FILENO) == 1) fmt::print("\n");
  if (options.stats) print_stats(sink->usage());
  if (sink->reason() == FinishReason::kFailed) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: the model's logits are not finite numbers", options.model.model));
  }
  return kExitOk;
}

}  // namespace

Command add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "answer one prompt");
  options->model.add_to(command);
  command.add_option_function<std::string>(
      "-p,--prompt",
      [options](const std::string& text) {
        options->prompt = text;
        options->has_prompt = true;
      },
      "continue this text (a pipe does the same)");
  command.add_option("--tokens", options->tokens, "continue these ids, fed exactly as they stand");
  add_count(command, "--max-tokens", options->max_tokens,
            "tokens to generate at most (default: 256)");
  command.add_option("--stop", options->stop, "end the answer before this text");
  options->disk.add_to(command);
  SamplingParams& sampling = options->sampling;
  sampling.temperature = 0.8f;
  sampling.top_p = 0.95f;
  command.add_option("--temperature", sampling.temperature, "0 is greedy")->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "draw among the K likeliest (0: off)")
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "draw among the likeliest that make up P")
      ->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "leave out what is less than P × the likeliest")
      ->capture_default_str();
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "1 is off")
      ->capture_default_str();
  command.add_option("--presence-penalty", sampling.presence_penalty, "0 is off");
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "0 is off");
  command.add_option("--seed", options->seed,
                     "the same seed gives the same text (default: random)");
  command.add_flag("--ids", options->ids, "print token ids instead of text");
  command.add_flag("--stats", options->stats, "print TTFT, ITL and cached tokens on stderr");
  command.add_flag("--ignore-eos", options->ignore_eos, "an end token does not stop");
  command.add_flag("--no-cache", options->no_cache, "compute all K and V again for every token");
  return [options]() -> int {
    const Result<int> code = run(*options);
    return code ? *code : report(code.error());
  };
}

}  // namespace kvik
