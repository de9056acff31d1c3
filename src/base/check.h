#pragma once

namespace kvik {

// Prints the broken invariant with its place and aborts. Never returns.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace kvik

// A broken CHECK is a bug of ours, never the outside world's doing.
#define CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::kvik::check_failed(#condition, __FILE__, __LINE__))

// As CHECK, for inner loops: gone in release builds.
#ifdef NDEBUG
#define DCHECK(condition) (static_cast<void>(sizeof(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif
