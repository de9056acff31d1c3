#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// What one request may hold at most. The service checks every request against these; the server
// already while it parses, so that a hostile body costs no memory.
struct RequestBounds {
  static constexpr size_t kMessages = 16'384;
  static constexpr uint32_t kChoices = 128;
  static constexpr uint32_t kLogprobs = 20;
  static constexpr uint64_t kPromptLogprobs = 1u << 20;  // of all prompt tokens and choices
  static constexpr size_t kStops = 16;
  static constexpr size_t kStopBytes = 1024;
  static constexpr size_t kStopTokens = 256;
  static constexpr size_t kBiases = 1024;
  static constexpr float kBias = 100;  // magnitude
  static constexpr size_t kTenantBytes = 512;
  static constexpr uint32_t kPinSeconds = 24 * 60 * 60;
};

}  // namespace kvik
