#include "cli/chat_input.h"

#include <algorithm>
#include <utility>

#include "base/blanks.h"

namespace kvik {
namespace {

constexpr std::string_view kMark = "\"\"\"";

std::string_view without_trailing_spaces(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Returns the position of a block's opening mark, which is at the beginning or after "/command ".
std::optional<size_t> find_block(std::string_view text) {
  size_t at = 0;
  if (text.starts_with('/')) at = std::min(text.find_first_of(kBlanks), text.size());
  at = std::min(text.find_first_not_of(kBlanks, at), text.size());
  if (!text.substr(at).starts_with(kMark)) return std::nullopt;
  return at;
}

// Removes the line breaks next to the marks, which are not part of the text.
std::string between_marks(std::string_view inside) {
  if (inside.starts_with('\n')) inside.remove_prefix(1);
  if (inside.ends_with('\n')) inside.remove_suffix(1);
  return std::string(inside);
}

}  // namespace

std::optional<std::string> ChatInput::push(std::string_view line) {
  raw_ += line;
  const std::string_view all = without_trailing_spaces(raw_);
  if (const auto block = find_block(raw_)) {
    const size_t begin = *block + kMark.size();
    if (all.size() < begin + kMark.size() || !all.ends_with(kMark)) {
      raw_ += '\n';
      return std::nullopt;
    }
    typed_ = all;
    const std::string_view inside = all.substr(begin, all.size() - kMark.size() - begin);
    std::string text = typed_.substr(0, *block) + between_marks(inside);
    raw_.clear();
    return text;
  }
  if (raw_.ends_with('\\')) {
    raw_.back() = '\n';
    return std::nullopt;
  }
  typed_ = std::exchange(raw_, {});
  return typed_;
}

}  // namespace kvik
