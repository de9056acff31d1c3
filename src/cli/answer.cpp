#include "cli/answer.h"

#include <algorithm>
#include <utility>

#include "base/blanks.h"

namespace kvik {

void AnswerSink::on_prompt(const PromptProgress& progress) {
  const MutexLock lock(mutex_);
  if (!is_closed_) console_.show_progress(progress.n_done, progress.n_all);
}

void AnswerSink::on_chunk(CompletionChunk chunk) {
  const MutexLock lock(mutex_);
  if (is_closed_) return;
  history_tokens_.text += chunk.text;
  history_tokens_.ids.insert(history_tokens_.ids.end(), chunk.token_ids.begin(),
                             chunk.token_ids.end());
  for (const AnswerPart& part : chunk.parts) {
    const bool is_text = part.kind == AnswerPart::Kind::kText;
    if (is_text) answer_.content += part.text;
    print(part.text, is_text ? TextStyle::kPlain : TextStyle::kDim);
  }
  if (chunk.finish) {
    answer_.finish = chunk.finish;
    // After a stop string, the tokens include it but the text does not.
    if (!chunk.stop_string) answer_.history_tokens = std::move(history_tokens_);
  }
}

void AnswerSink::on_done(const Usage& usage) {
  {
    const MutexLock lock(mutex_);
    answer_.usage = usage;
  }
  is_done_ = true;
  console_.wake();
}

void AnswerSink::on_no_memory() {
  {
    const MutexLock lock(mutex_);
    answer_.has_no_memory = true;
  }
  is_done_ = true;
  console_.wake();
}

Answer AnswerSink::close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  if (is_begun_) console_.write("\n", TextStyle::kPlain);
  return std::move(answer_);
}

// Omits blanks at the beginning and end of the reasoning and of the answer.
void AnswerSink::print(std::string_view text, TextStyle style) {
  const bool is_new = !is_begun_ || style != style_;
  if (is_new) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.empty()) return;
  if (is_new) held_blanks_ = is_begun_ ? "\n\n" : "";
  const size_t end = text.find_last_not_of(kBlanks) + 1;
  if (end > 0) {
    if (!held_blanks_.empty()) console_.write(std::exchange(held_blanks_, {}), style_);
    console_.write(text.substr(0, end), style);
    is_begun_ = true;
    style_ = style;
  }
  held_blanks_ += text.substr(end);
}

}  // namespace kvik
