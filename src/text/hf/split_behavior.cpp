#include "text/hf/split_behavior.h"

#include <algorithm>
#include <utility>

namespace kvik::hf {
namespace {

// As Hugging Face's library merges: a delimiter behind another begins anew.
void merge_with_previous(const std::vector<Part>& parts, std::vector<Words::Range>& words) {
  const size_t from = words.size();
  bool after_delimiter = false;
  for (const Part& part : parts) {
    if (part.is_delimiter && !after_delimiter && words.size() > from) {
      words.back().end = part.range.end;
    } else {
      words.push_back(part.range);
    }
    after_delimiter = part.is_delimiter;
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<Words::Range>& words) {
  const auto from = static_cast<std::ptrdiff_t>(words.size());
  bool before_delimiter = false;
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    if (part.is_delimiter && !before_delimiter && std::cmp_greater(words.size(), from)) {
      words.back().begin = part.range.begin;
    } else {
      words.push_back(part.range);
    }
    before_delimiter = part.is_delimiter;
  }
  std::reverse(words.begin() + from, words.end());
}

void merge_alike(const std::vector<Part>& parts, std::vector<Words::Range>& words) {
  const size_t from = words.size();
  bool was_delimiter = false;
  for (const Part& part : parts) {
    if (part.is_delimiter == was_delimiter && words.size() > from) {
      words.back().end = part.range.end;
    } else {
      words.push_back(part.range);
    }
    was_delimiter = part.is_delimiter;
  }
}

}  // namespace

Result<Behavior> read_behavior(const Fields& fields, Behavior otherwise) {
  TRY_ASSIGN(const auto name, fields.text("behavior"));
  if (!name) return otherwise;
  if (*name == "Removed") return Behavior::kRemoved;
  if (*name == "Isolated") return Behavior::kIsolated;
  if (*name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (*name == "Contiguous") return Behavior::kContiguous;
  return unexpected_value(fields.path_of("behavior"), fields.find("behavior"),
                          "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void append_split(std::vector<Part> parts, Behavior behavior, std::vector<Words::Range>& words) {
  std::erase_if(parts, [](const Part& part) { return part.range.begin == part.range.end; });
  if (behavior == Behavior::kMergedWithPrevious) return merge_with_previous(parts, words);
  if (behavior == Behavior::kMergedWithNext) return merge_with_next(parts, words);
  if (behavior == Behavior::kContiguous) return merge_alike(parts, words);
  for (const Part& part : parts) {
    if (!(part.is_delimiter && behavior == Behavior::kRemoved)) words.push_back(part.range);
  }
}

}  // namespace kvik::hf
