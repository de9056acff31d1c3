#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kvik {

// What one request may hold at most. The service checks every request against these; the server
// already while it parses, so that a hostile body costs no memory.
struct RequestBounds {
  static constexpr size_t kMessages = 16'384;
  static constexpr uint32_t kChoices = 128;
  static constexpr uint32_t kLogprobs = 20;
  // Log probabilities of all prompts and choices together, echoed and said anew.
  static constexpr uint64_t kLogprobEntries = 1u << 18;
  static constexpr uint64_t kSequences = 1024;         // prompts times choices
  static constexpr uint64_t kPromptCopies = 1u << 22;  // tokens of all prompts times choices
  static constexpr uint64_t kEchoedTokens = 1u << 20;  // of them, where they are echoed
  static constexpr size_t kStops = 16;
  static constexpr size_t kStopBytes = 1024;
  static constexpr size_t kStopTokens = 256;
  static constexpr size_t kBiases = 1024;
  static constexpr float kBias = 100;                    // magnitude
  static constexpr size_t kFormBytes = size_t{1} << 20;  // of a schema, grammar or expression
  static constexpr size_t kFormChoices = 4'096;
  static constexpr size_t kTenantBytes = 512;
  static constexpr uint32_t kPinSeconds = 24 * 60 * 60;
  static constexpr size_t kFieldBytes = 1024;  // of a field that is neither prompt nor tool

  // What follows the context: a token is rarely more than a few bytes, and a conversation whose
  // texts alone are 64 bytes a token fits no context. The floors leave room for what agents send
  // before they know how little fits.
  static constexpr uint64_t body_bytes(uint64_t n_ctx) {
    return std::clamp<uint64_t>(64 * n_ctx, 16 << 20, 32 << 20);
  }
  // All strings of a body together.
  static constexpr uint64_t text_bytes(uint64_t n_ctx) {
    return std::clamp<uint64_t>(64 * n_ctx, 4 << 20, 32 << 20);
  }
  // JSON values of a body: numbers, of which prompts can be made, and all others.
  static constexpr uint64_t numbers(uint64_t n_ctx) { return (1u << 17) + 8 * n_ctx; }
  static constexpr uint64_t values(uint64_t n_ctx) { return (1u << 16) + n_ctx; }
  // What all requests together may take beside the cache: bodies, what is made of them, and answers
  // on their way. kvik plan counts it.
  static constexpr uint64_t memory_bytes(uint64_t n_ctx) {
    return (32 << 20) + 16 * text_bytes(n_ctx);
  }
  // What answers may take that clients asked to be kept. kvik plan counts it as well.
  static constexpr uint64_t kept_bytes(uint64_t n_ctx) {
    return std::min<uint64_t>(4 * text_bytes(n_ctx), 64 << 20);
  }
};

}  // namespace kvik
