#pragma once

namespace kvik {

// Prints the violated condition with its location and aborts. Never returns.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace kvik

// A failed CHECK is a bug in this program, never an error of its input.
#define CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::kvik::check_failed(#condition, __FILE__, __LINE__))

// Like CHECK, for inner loops: removed in release builds.
#ifdef NDEBUG
#define DCHECK(condition) (static_cast<void>(sizeof(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif
