#include "text/blank_mark.h"

namespace kvik {

std::string blanks_to_blank_marks(std::string_view text) {
  std::string marked;
  marked.reserve(text.size());
  for (const char c : text) {
    if (c == ' ') {
      marked += kBlankMark;
    } else {
      marked += c;
    }
  }
  return marked;
}

std::string blank_marks_to_blanks(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kBlankMark)) {
      plain += ' ';
      at += kBlankMark.size();
    } else {
      plain += text[at++];
    }
  }
  return plain;
}

}  // namespace kvik
