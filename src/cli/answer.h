#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cli/console.h"
#include "service/service_api.h"

namespace kvik {

// What a model answered, as far as it came.
struct Answer {
  std::string content;                 // without what it thought before
  std::optional<FinishReason> finish;  // absent: the user had enough
  std::optional<Usage> usage;
  SpokenTokens spoken;  // all of it, thoughts and all; empty where tokens and text are not one
};

// Prints an answer as it comes, thoughts dimmed, and collects it. The engine thread calls; the
// chat's thread waits on the console and closes it.
class AnswerSink final : public CompletionSink {
 public:
  // The console outlives the last call, hence close() before that ends.
  explicit AnswerSink(Console& console) : console_(console) {}

  void on_prompt(const PromptProgress& progress) override;
  void on_chunk(CompletionChunk chunk) override;
  void on_done(const Usage& usage) override;

  bool is_done() const { return is_done_; }

  // Nothing is printed any more. What came until now, ended with a new line where something was
  // printed.
  Answer close();

 private:
  void print(std::string_view text, TextStyle style) REQUIRES(mutex_);

  Console& console_;
  std::atomic<bool> is_done_ = false;
  Mutex mutex_;
  bool is_closed_ GUARDED_BY(mutex_) = false;
  Answer answer_ GUARDED_BY(mutex_);
  SpokenTokens spoken_ GUARDED_BY(mutex_);                  // so far
  bool is_begun_ GUARDED_BY(mutex_) = false;                // something was printed,
  TextStyle style_ GUARDED_BY(mutex_) = TextStyle::kPlain;  // last in this style
  std::string held_blanks_ GUARDED_BY(mutex_);              // not printed before more comes
};

}  // namespace kvik
