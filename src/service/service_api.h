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
#include "service/attest/attested_request.h"
#include "service/attest/logits_chain.h"
#include "service/chat_request.h"
#include "service/embedding.h"
#include "service/structured_output/grammar_memory.h"
#include "service/structured_output/structured_output.h"
#include "text/tokenize_options.h"

namespace kvik {

class AdapterRegistry;

// The fields of a completion request that determine what clients receive about its tokens.
struct OutputOptions {
  std::vector<std::string> stop;
  bool echo = false;  // the answer begins with the prompt's text
  bool return_token_ids = false;
  bool attests = false;  // the answer can be verified: it has Completion::attested() and links
  std::optional<uint32_t> n_prompt_logprobs;  // most likely alternatives reported per prompt token
  // If present, the answer is split into parts and reasoning tokens are counted.
  std::optional<AnswerBegin> answer_begin;
  AnswerSyntax answer_syntax;  // syntax by which the answer is split
  // maximum number of reasoning tokens, if answer_begin is present
  std::optional<uint64_t> reasoning_budget;
  // maximum number of tool calls; the answer ends after the last one
  std::optional<uint32_t> max_calls;
};

// The texts of a request's samplers. complete() adds their tokens to SamplingParams.
struct SamplingTexts {
  std::vector<std::string> banned = {};  // the answer must not contain them
  // texts that end DRY's repetitions; absent: llama.cpp's
  std::optional<std::vector<std::string>> dry_breakers = {};
  std::vector<std::pair<std::string, float>> biases = {};  // each for all tokens of the text
};

// One completion request as received from a client, before any check.
struct CompletionRequest {
  Variant<std::string, std::vector<TokenId>> prompt;
  // Submitted to the engine, once for each choice. complete() fills in the fields that derive from
  // other fields: prompt tokens, max_tokens, min_tokens, end tokens, seed, constraint and adapter.
  Request engine;
  SamplingTexts sampling_texts = {};
  OutputOptions output;
  std::optional<uint64_t> seed;        // absent: random
  std::optional<uint64_t> max_tokens;  // absent: up to the context length
  uint64_t min_tokens = 0;
  uint32_t n = 1;
  bool ignore_eos = false;
  // time during which other pages are evicted before those of the prompt
  std::optional<std::chrono::seconds> pin_ttl;
  // Absent, or a name of the served model or of an adapter; any other name is kNotFound.
  std::optional<std::string> model;
  std::optional<StructuredOutput> form;  // absent: unconstrained
  uint32_t n_restored = 0;               // as in ChatPrompt
  std::optional<AnswerOrigin> origin;    // likewise
};

struct ChunkLogprob {
  std::string token;  // its text; an incomplete character becomes U+FFFD
  std::string bytes;
  // absent for the prompt's first token, which has no predecessor
  std::optional<float> logprob;
  uint32_t text_offset = 0;  // byte offset in the choice's text
  std::vector<std::pair<std::string, float>> top;
};

// The log probability of one token at one position of the prompt.
struct PromptLogprob {
  TokenId id = 0;
  float logprob = 0;
  uint32_t rank = 0;  // 1 is the most likely token
  std::string token;  // its text; an incomplete character becomes U+FFFD
};

// New output of one choice. `text` consists of whole characters and may be empty.
struct CompletionChunk {
  uint32_t choice = 0;
  std::string text;                      // as the model wrote it, including the marks of reasoning
  std::vector<AnswerPart> parts;         // if requested: the new parts of the answer
  std::vector<TokenId> token_ids;        // if requested
  std::vector<LogitsChain::Link> links;  // if requested: one per new token of the answer
  std::vector<ChunkLogprob> logprobs;    // if requested
  // If requested, in the first chunk of the first choice: for each token of the prompt, that token
  // and the most likely ones. The entry of the first token is empty, since it has no predecessor.
  std::vector<std::vector<PromptLogprob>> prompt_logprobs;
  std::optional<FinishReason> finish;      // set in a choice's last chunk
  std::optional<std::string> stop_string;  // the stop string that ended the choice
  bool ended_itself = false;               // a stop token ended the choice
  // If links are requested, in the last chunk: LogitsChain::end().
  LogitsChain::Link end_link = 0;
};

// Receives the output of one completion. Called on the engine thread; must not block. Every choice
// sends one chunk with `finish`; then on_done() is called once, last.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Reports prompt processing of the first choice; the whole prompt is done before its first chunk.
  virtual void on_prompt(const PromptProgress& progress) { static_cast<void>(progress); }
  // Reports each token of the first choice, if the request enables tracing.
  virtual void on_trace(const TokenTrace& trace) { static_cast<void>(trace); }
  virtual void on_chunk(CompletionChunk chunk) = 0;
  virtual void on_done(const Usage& usage) = 0;
  // Called instead of on_done() if the handle was destroyed; reports the usage up to then. It may
  // be called after the handle is gone.
  virtual void on_abandoned(const Usage& usage) { static_cast<void>(usage); }
  // Called instead of on_done() if memory for the report could not be allocated.
  virtual void on_no_memory() {}
};

// The handle of a running completion. Destroying it cancels the choices that are still running;
// their pages are free within one step.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual uint32_t prompt_tokens() const = 0;
  // Returns the paths of the schema keywords that the answer may violate; only for relaxed forms.
  virtual std::vector<std::string> relaxed() const { return {}; }
  // Returns what the answers depend on; null if OutputOptions::attests is false.
  virtual std::shared_ptr<const AttestedRequest> attested() const { return nullptr; }
};

// Properties of a model's weights, for listings.
struct WeightFacts {
  uint64_t n_parameters = 0;
  uint64_t n_bytes = 0;     // bytes of the packed weights
  std::string type = {};    // element type of most parameters: "q4_k"
  std::string format = {};  // "gguf" or "safetensors"
  std::string digest = {};  // hash of the metadata and all tensors: 64 hexadecimal digits
};

struct ModelCard {
  Printable id;  // name for clients
  Printable architecture;
  uint64_t created_s = 0;  // Unix time at which the model was loaded
  uint32_t n_ctx_max = 0;
  uint32_t n_ctx_train = 0;
  uint32_t n_vocab = 0;
  uint32_t model_dim = 0;     // size of a hidden state
  uint64_t kv_tokens = 0;     // number of tokens whose K/V fit in memory
  uint32_t page_tokens = 0;   // tokens per page
  std::string kv_type = {};   // element type of K/V
  std::string numerics = {};  // identifier of the arithmetic: kvik::numerics()
  std::string backend = {};   // for example "cpu/avx512"
  // the template in use (the model's own or a replacement), UTF-8; empty: none
  std::string chat_template = {};
  // additional names; "*" matches any name
  std::vector<std::string> aliases = {};
  WeightFacts weights = {};
  bool generates = true;                // false: an encoder, which has no answers
  std::optional<Pooling> pooling = {};  // as the model's files state it
  uint32_t n_labels = 0;                // scores of the model's classifier; 0: it has none
};

// The tokens of two texts for a classifier.
struct PairPrompt {
  std::vector<TokenId> ids;
  uint32_t second_segment = 0;  // first token of the second text
  uint32_t n_end_tokens = 0;    // tokens after the second text, which stay when it is cut
};

// The interface of the service (text in, text out), and the only part of the lower floors that the
// server uses. Any thread may call it; answers arrive on the engine thread.
class ServiceApi {
 public:
  virtual ~ServiceApi() = default;

  // Checks and tokenizes the request, compiles its form and submits it. Errors name the field in
  // `param`: kInvalidArgument, kContextLength, kNotFound (model), kExhausted (the queue is full),
  // kUnavailable (the server is stopping).
  virtual Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                                       std::shared_ptr<CompletionSink> sink) = 0;

  // Returns whether complete() would have to compile the request's form.
  virtual bool must_compile(const CompletionRequest& request) const {
    static_cast<void>(request);
    return false;
  }
  // Compiles the request's form if that takes a few milliseconds and the tenant's budget for such
  // attempts is not used up. Returns whether the form is compiled now. If not, complete() needs up
  // to 100 ms of CPU time to compile it and should run on a thread that no other work waits for.
  // Errors: those of the form, as in complete().
  virtual Result<bool> try_compile(const CompletionRequest& request) {
    static_cast<void>(request);
    return true;
  }
  virtual GrammarMemory grammar_memory() const { return {}; }

  // Computes the embedding of a prompt. The whole prompt is computed; cached K/V are not used.
  // Destroying the handle cancels the request. Errors: those of complete().
  virtual Result<std::unique_ptr<Completion>> embed(EmbeddingRequest request,
                                                    std::shared_ptr<EmbeddingSink> sink) = 0;

  // Returns the prompts by which the model's classifier compares a text, such as a query, with each
  // of others, such as documents. Errors: kInvalidArgument if the model has no classifier.
  virtual Result<std::vector<PairPrompt>> pair_prompts(
      std::string_view /*first*/, std::span<const std::string_view> /*seconds*/) const {
    return fail(ErrorCode::kInvalidArgument,
                "this model has no classifier that scores pairs of texts, expected a reranker "
                "(cross-encoder)");
  }

  virtual std::vector<TokenId> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const = 0;
  // Returns kInvalidArgument if an id is outside the vocabulary.
  virtual Result<std::string> detokenize(std::span<const TokenId> ids) const = 0;

  // Renders a conversation with the model's chat template, as text or as the prompt of a
  // completion. Errors: those of ChatFormat.
  virtual Result<std::string> apply_template(const ChatRequest& request) const = 0;
  virtual Result<ChatPrompt> chat_prompt(const ChatRequest& request) const = 0;

  virtual const ModelCard& card() const = 0;
  // Returns the adapters that requests may name; null: none.
  virtual AdapterRegistry* adapters() const { return nullptr; }
  virtual EngineSnapshot snapshot() const = 0;
  // Sends live views of the engine to the sink as long as the sink exists. Errors: kExhausted (too
  // many watchers), kUnavailable.
  virtual Result<void> watch(const std::shared_ptr<LiveSink>& sink) = 0;
};

}  // namespace kvik
