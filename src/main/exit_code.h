#pragma once

#include <fmt/format.h>

#include <string>

#include "base/process/streams.h"
#include "base/result.h"

namespace kvik {

enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitInterrupted = 130 };

// The one place that maps trouble to exit codes.
inline ExitCode exit_code(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

// Says it in one line on stderr.
inline ExitCode report(const Error& error) {
  streams::complain(fmt::format("kvik: {}", error.message));
  return exit_code(error);
}

inline int finish(const Result<int>& code) { return code ? *code : report(code.error()); }

// Prints what a command found out.
inline int finish(const Result<std::string>& text) {
  if (!text) return report(text.error());
  streams::print_text(*text);
  return kExitOk;
}

}  // namespace kvik
