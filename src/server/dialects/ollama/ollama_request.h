#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/ollama/ollama_names.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// A parsed body of /api/generate or /api/chat.
struct OllamaCall {
  // kLoad, kUnload: there is no prompt; the request loads or unloads the model.
  enum class Kind { kAnswer, kLoad, kUnload };

  Kind kind = Kind::kAnswer;
  std::string model;    // the name in the answer
  CompletionCall call;  // kAnswer
  // /api/generate: tokens of the prompt, with which `context` of the answer begins; std::nullopt:
  // the answer has no context.
  std::optional<std::vector<TokenId>> context = {};
};

// Errors of all functions: kInvalidArgument, kUnsupported, kNotFound (model), with the field in
// `param`; with messages also those of the template.

// /api/generate: `prompt` and `system` as a conversation of the model's chat template, or in
// `template`; with `raw` the prompt is the whole text. `context` is put before them. `suffix` needs
// a template with it, or a model with fill-in-the-middle tokens.
Result<OllamaCall> parse_generate_call(const ServiceApi& service, const RequestBody& body);

// /api/chat: messages with `thinking`, `tool_calls` whose arguments are objects, and results of
// tools. If the last message is the assistant's, the answer continues it.
Result<OllamaCall> parse_ollama_chat_call(const ServiceApi& service, const RequestBody& body);

// A parsed body of /api/embed, with `input`, or /api/embeddings, with `prompt`.
struct OllamaEmbedCall {
  std::string model;    // the name in the answer
  EmbeddingsCall call;  // without requests if there is no text
};

// A text that is longer than the context is cut at its end, unless `truncate` is false.
Result<OllamaEmbedCall> parse_embed_call(const ServiceApi& service, const RequestBody& body,
                                         std::string_view input);

}  // namespace kvik
