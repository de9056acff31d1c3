#include "server/routes.h"

namespace kvik {
namespace {

using Access = Route::Access;
using Drain = Route::Drain;
using Work = Route::Work;
using Scope = Route::Scope;

constexpr BodyField kCompletions[] = {
    {"prompt", "", true}, {"model", "string"}, {"max_tokens", "integer"}, {"temperature", "number"},
    {"stop", ""},         {"n", "integer"},    {"stream", "boolean"},     {"logprobs", "integer"}};
constexpr BodyField kChat[] = {{"messages", "array", true},
                               {"model", "string"},
                               {"max_completion_tokens", "integer"},
                               {"temperature", "number"},
                               {"stop", ""},
                               {"n", "integer"},
                               {"stream", "boolean"},
                               {"tools", "array"},
                               {"tool_choice", ""},
                               {"parallel_tool_calls", "boolean"},
                               {"logprobs", "boolean"},
                               {"reasoning_effort", "string"},
                               {"reasoning", "object"},
                               {"reasoning_budget", "integer"},
                               {"chat_template_kwargs", "object"},
                               {"cache_salt", "string"},
                               {"priority", "integer"}};
constexpr BodyField kNative[] = {
    {"prompt", "", true}, {"n_predict", "integer"}, {"stream", "boolean"}, {"n_probs", "integer"}};
constexpr BodyField kInfill[] = {{"input_prefix", "string", true}, {"input_suffix", "string", true},
                                 {"input_extra", "array"},         {"prompt", "string"},
                                 {"n_predict", "integer"},         {"stream", "boolean"}};
constexpr BodyField kTemplate[] = {{"messages", "array", true}, {"tools", "array"}};
constexpr BodyField kResponses[] = {{"input", "", true},
                                    {"model", "string"},
                                    {"instructions", "string"},
                                    {"tools", "array"},
                                    {"tool_choice", ""},
                                    {"previous_response_id", "string"},
                                    {"store", "boolean"},
                                    {"stream", "boolean"},
                                    {"background", "boolean"},
                                    {"include", "array"},
                                    {"reasoning", "object"},
                                    {"truncation", "string"},
                                    {"max_output_tokens", "integer"}};
constexpr BodyField kMessages[] = {{"messages", "array", true}, {"model", "string"},
                                   {"max_tokens", "integer"},   {"system", ""},
                                   {"tools", "array"},          {"tool_choice", "object"},
                                   {"stream", "boolean"},       {"thinking", "object"},
                                   {"output_config", "object"}, {"temperature", "number"},
                                   {"stop_sequences", "array"}};
constexpr BodyField kEmbeddings[] = {
    {"input", "", true},           {"model", "string"},     {"dimensions", "integer"},
    {"encoding_format", "string"}, {"pooling", "string"},   {"embd_normalize", "integer"},
    {"normalize", "boolean"},      {"truncate", "boolean"}, {"truncate_prompt_tokens", "integer"}};
constexpr BodyField kRerank[] = {
    {"query", "string", true}, {"documents", "array"},  {"texts", "array"},
    {"model", "string"},       {"top_n", "integer"},    {"return_documents", "boolean"},
    {"raw_scores", "boolean"}, {"truncate", "boolean"}, {"truncate_prompt_tokens", "integer"}};
constexpr BodyField kScore[] = {{"text_1", ""},          {"text_2", ""},
                                {"model", "string"},     {"raw_scores", "boolean"},
                                {"truncate", "boolean"}, {"truncate_prompt_tokens", "integer"}};
constexpr BodyField kAdapter[] = {
    {"name", "string", true}, {"path", "string", true}, {"scale", "number"}};
constexpr BodyField kLoadLora[] = {
    {"lora_name", "string", true}, {"lora_path", "string", true}, {"scale", "number"}};
constexpr BodyField kUnloadLora[] = {{"lora_name", "string", true}};
constexpr BodyField kGenerate[] = {
    {"prompt", "string"},   {"model", "string"},   {"system", "string"}, {"suffix", "string"},
    {"template", "string"}, {"raw", "boolean"},    {"context", "array"}, {"stream", "boolean"},
    {"format", ""},         {"options", "object"}, {"think", ""},        {"keep_alive", ""}};
constexpr BodyField kOllamaChat[] = {
    {"messages", "array"}, {"model", "string"},   {"tools", "array"}, {"stream", "boolean"},
    {"format", ""},        {"options", "object"}, {"think", ""},      {"keep_alive", ""}};
constexpr BodyField kEmbed[] = {{"input", ""},
                                {"model", "string"},
                                {"truncate", "boolean"},
                                {"dimensions", "integer"},
                                {"keep_alive", ""}};
constexpr BodyField kEmbedOne[] = {{"prompt", "string"}, {"model", "string"}, {"keep_alive", ""}};
constexpr BodyField kModelName[] = {{"model", "string", true}};
constexpr BodyField kPull[] = {{"model", "string", true}, {"stream", "boolean"}};
constexpr BodyField kCopy[] = {{"source", "string", true}, {"destination", "string", true}};
constexpr BodyField kTokenize[] = {{"content", "string"},        {"prompt", "string"},
                                   {"messages", "array"},        {"add_special", "boolean"},
                                   {"parse_special", "boolean"}, {"tools", "array"}};
constexpr BodyField kDetokenize[] = {{"tokens", "array", true}};

constexpr std::string_view kText = "text/plain";

constexpr Route::Traits kOpen{.access = Access::kOpen, .scope = Scope::kServer};
constexpr Route::Traits kOfServer{.scope = Scope::kServer};
constexpr Route::Traits kState{.scope = Scope::kState};
constexpr Route::Traits kDrains{.drain = Drain::kRefuses};
constexpr Route::Traits kHeavy{.work = Work::kHeavy};
constexpr Route::Traits kOllama{.errors = ErrorShape::kOllama};
constexpr Route::Traits kOllamaServer{.errors = ErrorShape::kOllama, .scope = Scope::kServer};
constexpr Route::Traits kOllamaDrains{.drain = Drain::kRefuses, .errors = ErrorShape::kOllama};

constexpr Route kRoutes[] = {
    {"/v1/completions", "POST", handle_completions, "Creates a completion (OpenAI)", kCompletions,
     kDrains},
    {"/v1/chat/completions", "POST", handle_chat, "Creates a chat completion (OpenAI)", kChat,
     kDrains},
    {"/v1/embeddings", "POST", handle_embeddings, "Creates embeddings (OpenAI)", kEmbeddings,
     kDrains},
    {"/v1/rerank", "POST", handle_rerank, "Sorts documents by relevance (Jina, Cohere)", kRerank,
     kDrains},
    {"/rerank", "POST", handle_rerank, "The same as /v1/rerank; with `texts`, TEI's answer",
     kRerank, kDrains},
    {"/v1/score", "POST", handle_score, "Scores pairs of texts (vLLM)", kScore, kDrains},
    {"/score", "POST", handle_score, "The same as /v1/score", kScore, kDrains},
    {"/v1/responses",
     "POST",
     handle_responses,
     "Creates a response, and stores it (OpenAI)",
     kResponses,
     {.drain = Drain::kRefuses, .work = Work::kHeavy}},
    {"/v1/responses/input_tokens", "POST", handle_count_input,
     "Counts the tokens of an input (OpenAI)", kResponses, kHeavy},
    {"/v1/responses/{id}", "GET", handle_response, "Returns a stored response", {}, kHeavy},
    {"/v1/responses/{id}/input_items",
     "GET",
     handle_response,
     "Lists the input items of a stored response",
     {},
     kHeavy},
    {"/v1/responses/{id}/cancel",
     "POST",
     handle_response,
     "Cancels a response that is computed in the background",
     {},
     kHeavy},
    {"/v1/responses/{id}", "DELETE", handle_response, "Deletes a stored response", {}, kHeavy},
    {"/v1/messages",
     "POST",
     handle_messages,
     "Creates a message (Anthropic)",
     kMessages,
     {.drain = Drain::kRefuses, .errors = ErrorShape::kAnthropic}},
    {"/v1/messages/count_tokens",
     "POST",
     handle_count_tokens,
     "Counts the tokens of a conversation (Anthropic)",
     kMessages,
     {.errors = ErrorShape::kAnthropic}},
    {"/api/generate", "POST", handle_ollama_generate, "Answers a prompt (Ollama)", kGenerate,
     kOllamaDrains},
    {"/api/chat", "POST", handle_ollama_chat, "Answers a conversation (Ollama)", kOllamaChat,
     kOllamaDrains},
    {"/api/embed", "POST", handle_ollama_embed, "Embeds texts (Ollama)", kEmbed, kOllamaDrains},
    {"/api/embeddings", "POST", handle_ollama_embeddings, "Embeds a text (Ollama, older)",
     kEmbedOne, kOllamaDrains},
    {"/api/tags", "GET", handle_ollama_tags, "The models (Ollama)", {}, kOllamaServer},
    {"/api/show", "POST", handle_ollama_show, "Properties of a model (Ollama)", kModelName,
     kOllamaServer},
    {"/api/ps", "GET", handle_ollama_ps, "The loaded models (Ollama)", {}, kOllamaServer},
    {"/api/pull",
     "POST",
     handle_ollama_pull,
     "Downloads a model (Ollama)",
     kPull,
     {.drain = Drain::kRefuses, .errors = ErrorShape::kOllama, .scope = Scope::kServer}},
    {"/api/delete", "DELETE", handle_ollama_delete, "Deletes a stored model (Ollama)", kModelName,
     kOllamaServer},
    {"/api/copy", "POST", handle_ollama_copy, "Copies a stored model (Ollama)", kCopy,
     kOllamaServer},
    {"/api/version",
     "GET",
     handle_ollama_version,
     "The version of Ollama's API",
     {},
     kOllamaServer},
    {"/apply-template", "POST", handle_apply_template,
     "Renders a conversation with the chat template", kTemplate},
    // Without /v1, for clients whose base URL omits it.
    {"/chat/completions", "POST", handle_chat, "The same as /v1/chat/completions", kChat, kDrains},
    {"/models", "GET", handle_models, "The same as /v1/models", {}, kOfServer},
    {"/v1/models", "GET", handle_models, "Lists the models and their aliases", {}, kOfServer},
    {"/v1/models/load", "POST", handle_load_model, "Loads a model of a router", kModelName,
     kOfServer},
    {"/v1/models/unload", "POST", handle_unload_model, "Unloads a model of a router", kModelName,
     kOfServer},
    {"/models/load", "POST", handle_load_model, "The same as /v1/models/load", kModelName,
     kOfServer},
    {"/models/unload", "POST", handle_unload_model, "The same as /v1/models/unload", kModelName,
     kOfServer},
    {"/completion", "POST", handle_native_completion, "Creates a completion (llama.cpp)", kNative,
     kDrains},
    {"/infill", "POST", handle_infill, "Fills in the text of a gap (llama.cpp)", kInfill, kDrains},
    {"/v1/models/{id}", "GET", handle_model, "Returns one model", {}, kOfServer},
    {"/v1/adapters", "GET", handle_adapters, "Lists the adapters of the model"},
    {"/v1/adapters", "POST", handle_adapters, "Loads an adapter from the server's disk", kAdapter},
    {"/v1/adapters/{id}", "GET", handle_adapter, "Returns one adapter"},
    {"/v1/adapters/{id}", "DELETE", handle_adapter, "Unloads an adapter"},
    {"/v1/load_lora_adapter",
     "POST",
     handle_load_lora_adapter,
     "Loads an adapter (vLLM)",
     kLoadLora,
     {},
     kText},
    {"/v1/unload_lora_adapter",
     "POST",
     handle_unload_lora_adapter,
     "Unloads an adapter (vLLM)",
     kUnloadLora,
     {},
     kText},
    {"/tokenize", "POST", handle_tokenize, "Tokenizes a text or a conversation", kTokenize},
    {"/detokenize", "POST", handle_detokenize, "Detokenizes token ids", kDetokenize},
    {"/metrics",
     "GET",
     handle_metrics,
     "Counters and histograms for Prometheus",
     {},
     kOfServer,
     kText},
    {"/props", "GET", handle_props, "Properties of the model in llama.cpp's format"},
    {"/version", "GET", handle_version, "Version of the server", {}, kOfServer},
    {"/kvik/explain",
     "POST",
     handle_explain,
     "Runs an experiment with and without the cache",
     {},
     kDrains},
    {"/kvik/route/{id}", "POST", handle_route,
     "Returns a routing hash: requests with equal beginnings get the same one"},
    {"/kvik/sessions",
     "GET",
     handle_sessions,
     "Lists recent sessions: prompt tokens reused, computed and lost, and to what",
     {},
     kState},
    {"/kvik/sessions/{id}",
     "GET",
     handle_session_tokens,
     "Returns the tokens of a session's last prompt and answer",
     {},
     kState},
    {"/kvik/live",
     "GET",
     handle_live,
     "Streams the state of the engine as server-sent events",
     {},
     {.drain = Drain::kRefuses, .scope = Scope::kState},
     "text/event-stream"},
    {"/openapi.json", "GET", handle_openapi, "This OpenAPI document", {}, kOfServer},
    {"/", "GET", handle_page, "The page", {}, kOpen, "text/html"},
    {"/health",
     "GET",
     handle_health,
     "Health; 503 with the progress while the model is being loaded",
     {},
     kOpen},
    {kAlivePath, "GET", handle_health, "Reports whether the server runs", {}, kOpen},
    {"/readyz",
     "GET",
     handle_health,
     "Reports whether the server accepts requests",
     {},
     {.access = Access::kOpen, .drain = Drain::kRefuses, .scope = Scope::kServer}},
};

}  // namespace

std::span<const Route> routes() { return kRoutes; }

}  // namespace kvik
