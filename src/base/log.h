#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace kvik::log {

// Everything is logged to stderr: stdout belongs to the model's text.
// `level` is one of trace, debug, info, warn, error, off.
void init(std::string_view level);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace kvik::log
