#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/cache_explanation.h"
#include "service/service_api.h"

namespace kvik {

// What all JSON of one answer to /v1/completions or /v1/chat/completions has in common.
struct CompletionEnvelope {
  enum class Dialect { kText, kChat };

  std::string id;  // "cmpl-…", "chatcmpl-…"
  std::string model;
  int64_t created_s = 0;
  bool wants_logprobs = false;
  bool wants_token_ids = false;
  bool include_usage = false;
  std::optional<CacheReach> explain_cache;  // where asked for
  Dialect dialect = Dialect::kText;
  bool begins_in_thought = false;  // the chat template opened a thought
};

// One choice of a whole answer, put together from its chunks. An event of a stream is the same
// thing with one chunk in it.
struct CompletionChoice {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<ChunkLogprob> logprobs;
  std::optional<FinishReason> finish;

  void append(CompletionChunk chunk);
};

// Of several prompts together.
Usage sum_of(std::span<const Usage> usages);

// The body of an answer that does not stream. choices[i] has index i, usages[i] is prompt i's.
std::string completion_json(const CompletionEnvelope& envelope,
                            std::span<const CompletionChoice> choices,
                            std::span<const Usage> usages);

// Events of a stream, each "data: …\n\n".
std::string chunk_event(const CompletionEnvelope& envelope, const CompletionChunk& chunk);
// Empty where neither usage nor an explanation was asked for.
std::string usage_event(const CompletionEnvelope& envelope, std::span<const Usage> usages);
std::string error_event(const Error& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

}  // namespace kvik
