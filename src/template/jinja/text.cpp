#include "template/jinja/text.h"

#include <algorithm>

namespace kvik::jinja {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void Text::append(const Text& other, size_t begin, size_t n_bytes) {
  const size_t end = std::min(other.size(), begin + n_bytes);
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  for (; begin < end; ++run) {
    const size_t run_end = std::min(run->end, end);
    append(std::string_view(other.bytes_).substr(begin, run_end - begin), run->origin);
    begin = run_end;
  }
}

Text Text::as(Kind kind) const {
  Text copy = *this;
  copy.kind_ = kind;
  return copy;
}

Text Text::substr(size_t begin, size_t n_bytes) const {
  Text part;
  part.kind_ = kind_;
  part.append(*this, begin, n_bytes);
  return part;
}

size_t n_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

size_t byte_of_character(std::string_view text, size_t index) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && index-- == 0) return at;
  }
  return text.size();
}

}  // namespace kvik::jinja
