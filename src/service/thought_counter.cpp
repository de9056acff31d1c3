#include "service/thought_counter.h"

#include <utility>

namespace kvik {

void ThoughtCounter::push(std::string_view text) {
  using Place = AnswerSplitter::Place;
  const Place before = splitter_.place();
  if (before == Place::kBehind && !may_come_again_) return;
  const uint32_t n_before = splitter_.n_thoughts();
  splitter_.push(text);
  if (before == Place::kThought) {
    ++n_tokens_;
  } else if (splitter_.n_thoughts() > n_before) {
    n_tokens_ += std::exchange(n_held_, 0) + 1;
  } else {
    n_held_ = splitter_.place() == Place::kOpening ? n_held_ + 1 : 0;
  }
}

}  // namespace kvik
