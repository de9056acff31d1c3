#pragma once

#include <string>

namespace kvik {

// Characters as they are typed, or why none comes: the one place that waits for a user.
class KeySource {
 public:
  // fd: a terminal or a pipe. signal_fd: readable once a signal asks for attention.
  KeySource(int fd, int signal_fd) : fd_(fd), signal_fd_(signal_fd) {}

  enum class Kind { kCharacter, kSignal, kResized, kEnd };
  struct Key {
    Kind kind;
    char32_t character = 0;
  };
  // Waits. Bytes that are no UTF-8 come as U+FFFD.
  Key next();

  // From now on next() tells of a window that changed its size.
  static void watch_size();

 private:
  // Whether a whole character, or bytes that can never be one, lie in pending_.
  bool has_character() const;
  char32_t take_character();

  const int fd_;
  const int signal_fd_;
  std::string pending_;
  bool is_ended_ = false;
};

}  // namespace kvik
