#include "text/hf/words.h"

namespace kvik::hf {

// Returns whether a part is joined to the previous one. As in Hugging Face's library, adjacent
// delimiters remain separate unless the behavior joins them.
bool Parts::joins_last(Kind kind) const {
  if (!has_last_) return false;
  const bool is_delimiter = kind == Kind::kDelimiter, was_delimiter = last_ == Kind::kDelimiter;
  switch (behavior_) {
    case Behavior::kMergedWithPrevious:
      return is_delimiter && !was_delimiter;
    case Behavior::kMergedWithNext:
      return !is_delimiter && was_delimiter;
    case Behavior::kContiguous:
      return is_delimiter == was_delimiter;
    default:
      return false;
  }
}

void Parts::push(size_t n_bytes, Kind kind) {
  if (n_bytes == 0) return;
  const uint32_t begin = end_;
  end_ += static_cast<uint32_t>(n_bytes);
  if (joins_last(kind)) {
    words_.back().end = end_;
  } else if (kind == Kind::kBetween || behavior_ != Behavior::kRemoved) {
    words_.push_back({begin, end_});
  }
  has_last_ = true;
  last_ = kind;
}

}  // namespace kvik::hf
