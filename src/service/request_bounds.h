#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kvik {

// Upper bounds of one request. The service checks every request against them. The server already
// applies them while parsing, so a hostile body cannot consume memory.
struct RequestBounds {
  static constexpr size_t kMessages = 16'384;
  static constexpr uint32_t kChoices = 128;
  static constexpr uint32_t kLogprobs = 20;
  // log probability entries of all prompts and choices, echoed and generated
  static constexpr uint64_t kLogprobEntries = 1u << 18;
  static constexpr uint64_t kSequences = 1024;         // prompts times choices
  static constexpr uint64_t kPromptCopies = 1u << 22;  // prompt tokens times choices
  static constexpr uint64_t kEchoedTokens = 1u << 20;  // echoed prompt tokens times choices
  static constexpr size_t kStops = 16;
  static constexpr size_t kStopBytes = 1024;
  static constexpr size_t kStopTokens = 256;
  static constexpr size_t kBiases = 1024;
  static constexpr float kBias = 100;  // absolute value
  static constexpr size_t kSamplers = 32;
  static constexpr size_t kBanned = 256;       // texts and tokens that the answer must not contain
  static constexpr size_t kBannedBytes = 256;  // also of the texts of biases
  static constexpr size_t kDryBreakers = 64;
  static constexpr size_t kDryBreakerBytes = 40;         // as in llama.cpp
  static constexpr size_t kFormBytes = size_t{1} << 20;  // schema, grammar or regular expression
  static constexpr size_t kFormChoices = 4'096;
  static constexpr size_t kTenantBytes = 512;
  static constexpr uint32_t kPinSeconds = 24 * 60 * 60;
  static constexpr size_t kFieldBytes = 1024;  // any field other than prompts and tools

  // Bounds that depend on the context length. A token is rarely more than a few bytes; a
  // conversation with 64 bytes of text per token does not fit any context. The lower limits leave
  // room for clients that send large requests before they know the context length.
  static constexpr uint64_t body_bytes(uint64_t n_ctx) {
    return std::clamp<uint64_t>(64 * n_ctx, 16 << 20, 32 << 20);
  }
  // total size of all strings in a body
  static constexpr uint64_t text_bytes(uint64_t n_ctx) {
    return std::clamp<uint64_t>(64 * n_ctx, 4 << 20, 32 << 20);
  }
  // Number of JSON values in a body: numbers, which may be prompt tokens, and all other values.
  static constexpr uint64_t numbers(uint64_t n_ctx) { return (1u << 17) + 8 * n_ctx; }
  static constexpr uint64_t values(uint64_t n_ctx) { return (1u << 16) + n_ctx; }
  // The least memory with which a server answers requests of a few KiB.
  static constexpr uint64_t kMinMemoryBytes = 1 << 20;
  // Memory of all requests together, excluding the cache: bodies, the data made from them, and
  // answers in progress. `kvik plan` includes it.
  static constexpr uint64_t memory_bytes(uint64_t n_ctx) {
    return (32 << 20) + 16 * text_bytes(n_ctx);
  }
  // Memory of the answers that clients asked the server to store. `kvik plan` includes it too.
  static constexpr uint64_t kept_bytes(uint64_t n_ctx) {
    return std::min<uint64_t>(4 * text_bytes(n_ctx), 64 << 20);
  }
};

}  // namespace kvik
