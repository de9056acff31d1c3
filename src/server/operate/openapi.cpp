#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <span>
#include <string_view>

#include "server/handlers.h"

namespace kvik {
namespace {

namespace json = boost::json;

struct Field {
  std::string_view name, type;  // JSON Schema's; empty: any
  bool is_required = false;
};

struct Operation {
  std::string_view path, method, summary;
  std::span<const Field> body = {};
  std::string_view answer = "application/json";
};

constexpr Field kCompletions[] = {
    {"prompt", "", true}, {"model", "string"}, {"max_tokens", "integer"}, {"temperature", "number"},
    {"stop", ""},         {"n", "integer"},    {"stream", "boolean"},     {"logprobs", "integer"}};
constexpr Field kChat[] = {{"messages", "array", true},
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
                           {"chat_template_kwargs", "object"},
                           {"cache_salt", "string"},
                           {"priority", "integer"}};
constexpr Field kTemplate[] = {{"messages", "array", true}, {"tools", "array"}};
constexpr Field kResponses[] = {
    {"input", "", true},     {"model", "string"},      {"instructions", "string"},
    {"tools", "array"},      {"tool_choice", ""},      {"previous_response_id", "string"},
    {"store", "boolean"},    {"stream", "boolean"},    {"include", "array"},
    {"reasoning", "object"}, {"truncation", "string"}, {"max_output_tokens", "integer"}};
constexpr Field kMessages[] = {{"messages", "array", true}, {"model", "string"},
                               {"max_tokens", "integer"},   {"system", ""},
                               {"tools", "array"},          {"tool_choice", "object"},
                               {"stream", "boolean"},       {"thinking", "object"},
                               {"output_config", "object"}, {"temperature", "number"},
                               {"stop_sequences", "array"}};
constexpr Field kEmbeddings[] = {
    {"input", "", true}, {"model", "string"}, {"dimensions", "integer"}};
constexpr Field kAdapter[] = {
    {"name", "string", true}, {"path", "string", true}, {"scale", "number"}};
constexpr Field kLoadLora[] = {
    {"lora_name", "string", true}, {"lora_path", "string", true}, {"scale", "number"}};
constexpr Field kUnloadLora[] = {{"lora_name", "string", true}};
constexpr Field kTokenize[] = {{"content", "string"},        {"prompt", "string"},
                               {"messages", "array"},        {"add_special", "boolean"},
                               {"parse_special", "boolean"}, {"tools", "array"}};
constexpr Field kDetokenize[] = {{"tokens", "array", true}};

constexpr std::string_view kText = "text/plain";

constexpr Operation kOperations[] = {
    {"/v1/completions", "post", "Continues a text (OpenAI)", kCompletions},
    {"/v1/chat/completions", "post", "Answers a conversation (OpenAI)", kChat},
    {"/v1/embeddings", "post", "Embeds texts (OpenAI)", kEmbeddings},
    {"/v1/responses", "post", "Answers a conversation, and keeps it (OpenAI)", kResponses},
    {"/v1/responses/input_tokens", "post", "How long an input is (OpenAI)", kResponses},
    {"/v1/responses/{id}", "get", "A response that is kept"},
    {"/v1/responses/{id}/input_items", "get", "The input of a response that is kept"},
    {"/v1/responses/{id}", "delete", "Forgets a response"},
    {"/v1/messages", "post", "Answers a conversation (Anthropic)", kMessages},
    {"/v1/messages/count_tokens", "post", "How long a conversation is (Anthropic)", kMessages},
    {"/apply-template", "post", "A conversation as the chat template writes it", kTemplate},
    {"/chat/completions", "post", "The same as /v1/chat/completions", kChat},
    {"/models", "get", "The same as /v1/models"},
    {"/v1/models", "get", "The model and its other names"},
    {"/v1/models/{id}", "get", "One of them"},
    {"/v1/adapters", "get", "The adapters of the model"},
    {"/v1/adapters", "post", "Loads one from the server's disk", kAdapter},
    {"/v1/adapters/{id}", "get", "One of them"},
    {"/v1/adapters/{id}", "delete", "Forgets an adapter"},
    {"/v1/load_lora_adapter", "post", "Loads an adapter (vLLM)", kLoadLora, kText},
    {"/v1/unload_lora_adapter", "post", "Forgets an adapter (vLLM)", kUnloadLora, kText},
    {"/tokenize", "post", "A text as token ids", kTokenize},
    {"/detokenize", "post", "Token ids as a text", kDetokenize},
    {"/metrics", "get", "Counters and histograms for Prometheus", {}, kText},
    {"/props", "get", "The model's properties, as llama.cpp's server tells them"},
    {"/version", "get", "What was built"},
    {"/kvik/explain", "post", "With and without the cache, measured"},
    {"/kvik/route/{id}", "post", "Whom of several servers a request should go to: a hash"},
    {"/kvik/live", "get", "The engine at work, as events", {}, "text/event-stream"},
    {"/openapi.json", "get", "This description"},
    {"/", "get", "The page", {}, "text/html"},
    {"/health", "get", "Health; 503 with the progress while the model is being loaded"},
    {"/livez", "get", "Whether it lives"},
    {"/readyz", "get", "Whether it takes work"},
};

json::object body_json(std::span<const Field> fields) {
  json::object properties;
  json::array required;
  for (const Field& field : fields) {
    properties[field.name] =
        field.type.empty() ? json::object() : json::object{{"type", field.type}};
    if (field.is_required) required.emplace_back(field.name);
  }
  const json::object schema{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  return {{"required", true}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

json::object operation_json(const Operation& operation) {
  json::object out{{"summary", operation.summary}};
  if (operation.path.contains("{id}")) {
    const json::object id{
        {"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
    out["parameters"] = json::array{id};
  }
  if (!operation.body.empty()) out["requestBody"] = body_json(operation.body);
  const json::object answered{{"description", "The answer"},
                              {"content", {{operation.answer, json::object()}}}};
  out["responses"] = {{"200", answered},
                      {"default", {{"description", "An error in the shape of its API"}}}};
  return out;
}

}  // namespace

Reply handle_openapi(const HandlerContext& context, const HttpRequest&) {
  json::object paths;
  for (const Operation& operation : kOperations) {
    json::value& path = paths[operation.path];
    if (!path.is_object()) path = json::object();
    path.get_object()[operation.method] = operation_json(operation);
  }
  const json::object bearer{{"type", "http"}, {"scheme", "bearer"}};
  const json::object header{{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}};
  const json::object out{
      {"openapi", "3.1.0"},
      {"info", {{"title", "Kvik"}, {"version", context.options.version}}},
      {"security",
       json::array{json::object(), {{"bearer", json::array()}}, {{"key", json::array()}}}},
      {"paths", std::move(paths)},
      {"components", {{"securitySchemes", {{"bearer", bearer}, {"key", header}}}}}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
