#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/result.h"
#include "base/token_id.h"
#include "base/variant.h"
#include "engine/request/request.h"
#include "engine/watch/live_view.h"
#include "engine/watch/snapshot.h"
#include "service/answer_parts.h"
#include "service/chat_request.h"
#include "service/embedding.h"
#include "service/forms/answer_form.h"
#include "service/forms/grammar_memory.h"
#include "text/tokenize_options.h"

namespace kvik {

class AdapterBook;

// The part of a completion's request that says what of its tokens clients get to see.
struct OutputOptions {
  std::vector<std::string> stop;
  bool echo = false;  // the prompt's text comes first
  bool return_token_ids = false;
  std::optional<uint32_t> n_prompt_logprobs;  // so many besides each prompt token's own
  // Present: the answer comes in parts, and reasoning is counted.
  std::optional<AnswerBegin> answer_begin;
  AnswerSyntax answer_syntax;         // how the parts are told apart
  std::optional<uint32_t> max_calls;  // of tools; the answer ends after the last one
};

// One completion as a client asks for it, before any check.
struct CompletionRequest {
  Variant<std::string, std::vector<TokenId>> prompt;
  // Goes to the engine, once for each choice. complete() sets what follows from other fields: the
  // tokens of the prompt, max_tokens, min_tokens, end tokens, seed, constraint and adapter.
  Request engine;
  OutputOptions output;
  std::optional<uint64_t> seed;        // absent: a random one
  std::optional<uint64_t> max_tokens;  // absent: what the context holds
  uint64_t min_tokens = 0;
  uint32_t n = 1;
  bool ignore_eos = false;
  std::optional<std::chrono::seconds> pin_ttl;  // the prompt's pages are kept in preference so long
  // Absent, or a name of the served model or of an adapter; another is kNotFound.
  std::optional<std::string> model;
  std::optional<AnswerForm> form;  // absent: any text
};

struct ChunkLogprob {
  std::string token;             // its text, as far as it is valid UTF-8
  std::string bytes;             // its bytes
  std::optional<float> logprob;  // absent: the prompt's first token, which nothing precedes
  uint32_t text_offset = 0;      // in the choice's text, in bytes
  std::vector<std::pair<std::string, float>> top;
};

// A token that could stand at some place of the prompt.
struct PromptLogprob {
  TokenId id = 0;
  float logprob = 0;
  uint32_t rank = 0;  // 1 is the most likely one's
  std::string token;  // its text, as far as it is valid UTF-8
};

// News of one choice. `text` is whole characters; it may be empty.
struct CompletionChunk {
  uint32_t choice = 0;
  std::string text;                    // as the model says it, the marks of its thoughts too
  std::vector<AnswerPart> parts;       // where asked for: of the text so far, what is new
  std::vector<TokenId> token_ids;      // where asked for
  std::vector<ChunkLogprob> logprobs;  // where asked for
  // Where asked for, in the first chunk of the first choice: for each token of the prompt, itself
  // and the most likely ones. Nothing for the first: no token stands before it.
  std::vector<std::vector<PromptLogprob>> prompt_logprobs;
  std::optional<FinishReason> finish;      // set in a choice's last chunk
  std::optional<std::string> stop_string;  // the one that ended it
};

// Called on the engine thread; must not block. Every choice sends one chunk with `finish`, then
// on_done comes once, last.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Of the first choice; the whole prompt is done before its first chunk.
  virtual void on_prompt(const PromptProgress& progress) { static_cast<void>(progress); }
  // Each token of the first choice, where asked for.
  virtual void on_trace(const TokenTrace& trace) { static_cast<void>(trace); }
  virtual void on_chunk(CompletionChunk chunk) = 0;
  virtual void on_done(const Usage& usage) = 0;
  // In the place of on_done(), for a completion that was let go: what it had used by then. May come
  // after the handle is gone.
  virtual void on_abandoned(const Usage& usage) { static_cast<void>(usage); }
  // In its place as well, where the system has no memory left for what the sink should be told.
  virtual void on_no_memory() {}
};

// A running completion. Destroying it cancels what still runs: its pages are free within one step.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual uint32_t prompt_tokens() const = 0;
  // Paths of what the form asks for and its answer need not keep; of relaxed forms alone.
  virtual std::vector<std::string> relaxed() const { return {}; }
};

struct ModelCard {
  Printable id;  // what clients call it
  Printable architecture;
  uint64_t created_s = 0;  // Unix time at which it was loaded
  uint32_t n_ctx_max = 0;
  uint32_t n_ctx_train = 0;
  uint32_t n_vocab = 0;
  uint32_t model_dim = 0;                 // dimensions of a hidden state
  uint64_t kv_tokens = 0;                 // whose K and V fit in memory
  uint32_t page_tokens = 0;               // that lie in one page
  std::string kv_type = {};               // as which they are stored
  std::string backend = {};               // that computes: "cpu/avx512"
  std::string chat_template = {};         // the model's own, or another, UTF-8; empty: it has none
  std::vector<std::string> aliases = {};  // that it answers to as well; "*": any
};

// Text in, text out: what the server needs of the floors below, and all it knows of them. Any
// thread may call; answers arrive on the engine thread.
class ServiceApi {
 public:
  virtual ~ServiceApi() = default;

  // Checks, tokenizes, compiles the form and submits. Errors name the field in `param`:
  // kInvalidArgument, kContextLength, kNotFound (model), kExhausted (the queue is full),
  // kUnavailable (stopping).
  virtual Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                                       std::shared_ptr<CompletionSink> sink) = 0;

  // Returns whether complete() has to compile the request's form first.
  virtual bool must_compile(const CompletionRequest& request) const {
    static_cast<void>(request);
    return false;
  }
  // Compiles the request's form if that takes a few milliseconds and its tenant has not used up
  // such help. Returns whether it is compiled now; else complete() takes up to 100 ms of processor
  // time, on a thread that nobody should wait for. Errors: the form's, as complete() would say
  // them.
  virtual Result<bool> try_compile(const CompletionRequest& request) {
    static_cast<void>(request);
    return true;
  }
  virtual GrammarMemory grammar_memory() const { return {}; }

  // Computes the whole prompt, whatever the cache knows of it. The handle is one of a completion.
  // Errors as complete()'s.
  virtual Result<std::unique_ptr<Completion>> embed(EmbeddingRequest request,
                                                    std::shared_ptr<EmbeddingSink> sink) = 0;

  virtual std::vector<TokenId> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const = 0;
  // kInvalidArgument where an id lies outside the vocabulary.
  virtual Result<std::string> detokenize(std::span<const TokenId> ids) const = 0;

  // A conversation as the model's chat template writes it: as text, and as the prompt of a
  // completion. Errors as ChatFormat's.
  virtual Result<std::string> apply_template(const ChatRequest& request) const = 0;
  virtual Result<ChatPrompt> chat_prompt(const ChatRequest& request) const = 0;

  virtual const ModelCard& card() const = 0;
  // What the model answers with besides itself; null: nothing.
  virtual AdapterBook* adapters() const { return nullptr; }
  virtual EngineSnapshot snapshot() const = 0;
  // The sink sees the engine at work for as long as it lives. Errors: kExhausted (too many watch),
  // kUnavailable.
  virtual Result<void> watch(const std::shared_ptr<LiveSink>& sink) = 0;
};

}  // namespace kvik
