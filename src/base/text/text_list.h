#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// A list of texts in two blocks of memory, however many there are.
class TextList {
 public:
  TextList() = default;
  TextList(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) add(text);
  }

  void reserve(size_t n) { ends_.reserve(n); }
  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }

  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  // Returns the total length of the texts in bytes.
  size_t n_bytes() const { return bytes_.size(); }

  friend bool operator==(const TextList&, const TextList&) = default;

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

}  // namespace kvik
