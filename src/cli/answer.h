#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cli/console.h"
#include "service/service_api.h"

namespace kvik {

// The answer of a model, possibly incomplete.
struct Answer {
  std::string content;                 // without reasoning
  std::optional<FinishReason> finish;  // absent: the user interrupted the answer
  std::optional<Usage> usage;
  bool has_no_memory = false;  // it ended because memory was exhausted
  // all of the answer, including reasoning; empty if the answer was interrupted or ended by a stop
  // string, since tokens and text then differ
  HistoryTokens history_tokens;
};

// Prints an answer as it arrives, with reasoning dimmed, and collects it. The engine thread calls
// the sink; the chat's thread waits on the console and then calls close().
class AnswerSink final : public CompletionSink {
 public:
  // Borrows the console. close() must be called before the console is destroyed.
  explicit AnswerSink(Console& console) : console_(console) {}

  void on_prompt(const PromptProgress& progress) override;
  void on_chunk(CompletionChunk chunk) override;
  void on_done(const Usage& usage) override;
  void on_no_memory() override;

  bool is_done() const { return is_done_; }

  // Stops printing and returns the answer up to now. Ends the output with a line break if anything
  // was printed.
  Answer close();

 private:
  void print(std::string_view text, TextStyle style) REQUIRES(mutex_);

  Console& console_;
  std::atomic<bool> is_done_ = false;
  Mutex mutex_;
  bool is_closed_ GUARDED_BY(mutex_) = false;
  Answer answer_ GUARDED_BY(mutex_);
  HistoryTokens history_tokens_ GUARDED_BY(mutex_);         // text and tokens so far
  bool is_begun_ GUARDED_BY(mutex_) = false;                // something was printed
  TextStyle style_ GUARDED_BY(mutex_) = TextStyle::kPlain;  // style of the last output
  // trailing blanks, printed only if more text follows
  std::string held_blanks_ GUARDED_BY(mutex_);
};

}  // namespace kvik
