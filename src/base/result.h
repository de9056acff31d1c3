#pragma once

#include <expected>
#include <string>
#include <utility>

namespace kvik {

// Kinds of errors. One function maps them to HTTP statuses (server/http/status.h), one to exit
// codes (main/exit_code.h).
enum class ErrorCode {
  kInvalidArgument,  // the caller's value is wrong
  kContextLength,    // the prompt is longer than the context
  kNotFound,         // no such file, model, route
  kUnsupported,      // well-formed, but not supported
  kCorrupt,          // a file violates its format
  kExhausted,        // a queue or budget is full: try again later
  kUnavailable,      // shutting down
  kIo,               // the operating system refused
};

// An error with one sentence that names the offending value and what was expected.
struct Error {
  ErrorCode code;
  std::string message;
  std::string param = {};  // request field that is wrong; empty: none
};

// A value or an error. Our code does not throw.
template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string param = {}) {
  return std::unexpected<Error>(Error{code, std::move(message), std::move(param)});
}

}  // namespace kvik

#define KVIK_CONCAT_(a, b) a##b
#define KVIK_CONCAT(a, b) KVIK_CONCAT_(a, b)

// TRY(expr): returns the error to the caller, or discards the value.
#define TRY(expr)                                                           \
  do {                                                                      \
    if (auto try_result = (expr); !try_result)                              \
      return std::unexpected<::kvik::Error>(std::move(try_result.error())); \
  } while (false)

#define KVIK_TRY_ASSIGN(tmp, decl, expr)                                   \
  auto tmp = (expr);                                                       \
  if (!tmp) return std::unexpected<::kvik::Error>(std::move(tmp.error())); \
  decl = std::move(*tmp)

// TRY_ASSIGN(auto x, expr): declares or assigns x, or returns the error to the caller.
#define TRY_ASSIGN(decl, expr) KVIK_TRY_ASSIGN(KVIK_CONCAT(try_result_, __LINE__), decl, expr)
