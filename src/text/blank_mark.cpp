#include "text/blank_mark.h"

#include <algorithm>

namespace kvik {

void append_with_space_marks(std::string_view text, std::string& marked) {
  marked.reserve(marked.size() + text.size() + text.size() / 2);
  for (size_t begin = 0; begin < text.size();) {
    const size_t blank = std::min(text.find(' ', begin), text.size());
    marked.append(text.substr(begin, blank - begin));
    if (blank < text.size()) marked += kSpaceMark;
    begin = blank + 1;
  }
}

std::string space_marks_to_spaces(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kSpaceMark)) {
      plain += ' ';
      at += kSpaceMark.size();
    } else {
      plain += text[at++];
    }
  }
  return plain;
}

}  // namespace kvik
