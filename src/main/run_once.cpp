#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/process/interrupts.h"
#include "base/quantity.h"
#include "cli/chat_state.h"
#include "host/progress_bar.h"
#include "main/exit_code.h"
#include "main/run_options.h"
#include "main/terminal_console.h"
#include "service/structured_output/grammar_limits.h"

namespace kvik {
namespace {

constexpr uint64_t kDefaultMaxTokens = 256;  // a continued text may never end by itself

// The form in which an answer is printed.
enum class Form {
  kText,  // all text unchanged
  kTurn,  // content to stdout, reasoning to stderr
  kIds,   // token ids
};

// Writes an answer to stdout as it arrives. The engine thread calls it; the main thread waits for
// the end.
class StdoutSink final : public CompletionSink {
 public:
  explicit StdoutSink(Form form) : form_(form) {}

  void on_chunk(CompletionChunk chunk) override {
    if (form_ == Form::kIds) {
      for (const TokenId id : chunk.token_ids) {
        write(fmt::format("{}{}", std::exchange(between_, " "), id));
      }
    } else if (form_ == Form::kText) {
      write(chunk.text);
    } else {
      for (const AnswerPart& part : chunk.parts) write(part);
    }
    if (chunk.finish) reason_ = *chunk.finish;
  }

  void on_prompt(const PromptProgress& progress) override {
    bar_.show(progress.n_done, progress.n_all,
              fmt::format("{} of {} tokens", progress.n_done, progress.n_all));
  }

  void on_done(const Usage& usage) override {
    usage_ = usage;
    Interrupts::notify();
  }

  void on_no_memory() override {
    has_no_memory_ = true;
    Interrupts::notify();
  }

  // The following are valid after the main thread was notified.
  const Usage& usage() const { return usage_; }
  FinishReason reason() const { return reason_; }

  // Returns whether a write to stdout failed; the reason is reported when the process ends.
  bool has_write_failed() const { return has_write_failed_; }
  // Returns whether the answer ended because memory was exhausted.
  bool has_no_memory() const { return has_no_memory_; }
  // Returns whether the last byte written was not a newline.
  bool is_in_line() const { return is_in_line_; }

 private:
  void write(std::string_view text) {
    if (text.empty()) return;
    is_in_line_ = !text.ends_with('\n');
    if (write_styled(stdout, text, TextStyle::kPlain, Color::kOff)) return;
    has_write_failed_ = true;
    Interrupts::notify();
  }

  void write(const AnswerPart& part) {
    if (part.kind == AnswerPart::Kind::kReasoning) {
      write_styled(stderr, part.text, TextStyle::kDim, color_);
      has_reasoning_ = true;
      return;
    }
    if (std::exchange(has_reasoning_, false)) streams::write_now(stderr, "\n");
    write(part.text);
  }

  const Form form_;
  const Color color_ = color_of(stderr);
  ProgressBar bar_{"reading the prompt"};
  std::atomic<bool> has_write_failed_ = false;
  std::atomic<bool> has_no_memory_ = false;
  bool is_in_line_ = false;
  std::string_view between_;    // separator before the next id
  bool has_reasoning_ = false;  // reasoning was printed last
  FinishReason reason_ = FinishReason::kStop;
  Usage usage_;
};

void print_stats(const Usage& usage) {
  const double ttft_ms = to_ms(usage.ttft);
  const double decode_ms = to_ms(usage.decode_time);
  const uint32_t n_decoded = usage.completion_tokens > 1 ? usage.completion_tokens - 1 : 0;
  streams::print_error(fmt::format(
      "prompt {} tokens ({} cached: {} in memory, {} from tiers), TTFT {:.1f} ms; {} tokens "
      "generated, ITL {:.2f} ms, {:.1f} tok/s; {} of {} draft tokens accepted",
      usage.prompt_tokens, usage.cached_tokens, usage.cached_tokens - usage.cache.tier_tokens,
      usage.cache.tier_tokens, ttft_ms, usage.completion_tokens,
      n_decoded ? decode_ms / n_decoded : 0.0, decode_ms > 0 ? n_decoded * 1e3 / decode_ms : 0.0,
      usage.accepted_tokens, usage.drafted_tokens));
}

// Begins the answer to the task.
Result<std::unique_ptr<Completion>> begin(Generator& generator, const RunOptions& options,
                                          const RunTask& task,
                                          const std::shared_ptr<CompletionSink>& sink) {
  CompletionRequest request = options.settings().request;
  request.output.return_token_ids = options.ids;
  if (task.kind == RunTask::Kind::kContinue) {
    if (task.tokens) {
      request.prompt = *task.tokens;
    } else {
      request.prompt = task.prompt;
    }
    if (!options.max_tokens) request.max_tokens = kDefaultMaxTokens;
    return generator.complete(std::move(request), sink);
  }
  ChatState state;
  state.conversation.set_system(options.system);
  state.conversation.add("user", task.prompt);
  TRY_ASSIGN(Generator::Running running,
             generator.answer(state.prompt(), std::move(request), sink));
  return std::move(running.completion);
}

}  // namespace

Result<int> run_once(Generator& generator, const RunOptions& options, const RunTask& task) {
  const Form form = options.ids                         ? Form::kIds
                    : task.kind == RunTask::Kind::kTurn ? Form::kTurn
                                                        : Form::kText;
  const auto sink = std::make_shared<StdoutSink>(form);
  TRY_ASSIGN(auto completion, begin(generator, options, task, sink));
  if (Interrupts::wait()) {
    completion.reset();  // cancels it
    // The terminal shows "^C" on the line of the answer; the shell's prompt should be on the next.
    if (::isatty(STDOUT_FILENO) == 1) streams::write("\n");
    return kExitInterrupted;
  }
  if (sink->has_write_failed()) return kExitOk;
  if (const auto failure = generator.failure()) return std::unexpected<Error>(*failure);
  if (options.ids || sink->is_in_line() || ::isatty(STDOUT_FILENO) == 1) streams::write("\n");
  if (sink->has_no_memory()) {
    return fail(ErrorCode::kExhausted, "there is no memory for the rest of the answer");
  }
  if (options.given.request.form && sink->reason() == FinishReason::kLength) {
    streams::print_error(
        fmt::format("kvik: the answer was cut after {}, so that it is incomplete: "
                    "give more --max-tokens or --ctx",
                    counted(sink->usage().completion_tokens, "token")));
  }
  if (options.given.stats) print_stats(sink->usage());
  if (sink->reason() == FinishReason::kExhausted) {
    return std::unexpected<Error>(
        exhausted_error(options.given.request.form ? options.given.request.form->param : "answer"));
  }
  if (sink->reason() == FinishReason::kFailed) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: the model's logits are not finite numbers", options.model.model));
  }
  return kExitOk;
}

}  // namespace kvik
