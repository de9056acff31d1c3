#pragma once

#include <fmt/format.h>

#include <string>

#include "base/process/streams.h"
#include "base/result.h"

namespace kvik {

enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitInterrupted = 130 };

// Maps an error to an exit code. No other function does.
inline ExitCode exit_code(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

// Prints the error as one line on stderr and returns its exit code.
inline ExitCode report(const Error& error) {
  streams::print_error(fmt::format("kvik: {}", error.message));
  return exit_code(error);
}

inline int finish(const Result<int>& code) { return code ? *code : report(code.error()); }

// Prints the output of a command and returns its exit code.
inline int finish(const Result<std::string>& text) {
  if (!text) return report(text.error());
  streams::print_text(*text);
  return kExitOk;
}

}  // namespace kvik
