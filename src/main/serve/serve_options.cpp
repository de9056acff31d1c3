#include "main/serve/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "main/model_flags.h"
#include "service/tools/tool_format.h"

namespace kvik {
namespace {

void add_cache(Flags& flags, ServeOptions& options) {
  flags.add(
      "Cache",
      {
          {"--kv-memory", or_auto(as_bytes(options.kv_bytes)),
           "memory of the KV cache for all users together. auto: room for two contexts, and at "
           "least 4GiB, as far as the free memory goes; a quarter of the machine's memory, at most "
           "8GiB, stays free for other programs (default: auto)"},
          {"--overcommit", &options.model.overcommits,
           "start even if the plan needs more memory than this machine has"},
          Flag("--share", &options.share,
               "tenants that may hit a page in the prefix cache. two: the tenant that computed it, "
               "and all tenants once a second one has computed it; all: everyone; key: only the "
               "tenant that computed it (default: two; all without API keys)")
              .one_of({"two", "all", "key"}),
      });
}

void add_scheduling(Flags& flags, ServeOptions& options) {
  flags.add(
      "Scheduling",
      {
          Flag("--max-running", &options.max_running, "maximum number of sequences in a batch")
              .between(1, 4096)
              .with_default(),
          Flag("--max-queue", &options.max_queue,
               "maximum number of waiting requests; more are rejected with 429")
              .between(1, 1'000'000)
              .with_default(),
          {"--itl-target", as_duration(options.itl_target),
           "target inter-token latency of running answers: prefill chunks are made small enough to "
           "meet it; 0: no target (default: 50ms)"},
          {"--request-memory", as_bytes(options.request_memory),
           "memory of request bodies and unsent answers for all users together (default: depends "
           "on --ctx; see kvik plan)"},
      });
}

void add_network(Flags& flags, ServeOptions& options) {
  flags.add("Network",
            {
                Flag("--host", &options.server.host, "address to listen on").with_default(),
                Flag("--port", &options.server.port, "port to listen on; 0: any free port")
                    .with_default(),
                Flag("--max-connections", &options.server.max_connections,
                     "maximum number of open connections; at the limit, a new connection closes "
                     "the one that has been idle longest")
                    .between(1, 1'000'000)
                    .with_default(),
                {"--tls-cert", &options.tls.certificate,
                 "PEM file of the certificate chain; serves HTTPS instead of HTTP"},
                {"--tls-key", &options.tls.key, "PEM file of the certificate's private key"},
            });
}

void add_chat(Flags& flags, ServeOptions& options) {
  ServingOptions& serving = options.serving;
  std::vector<std::string> formats = {"none"};
  for (const ToolFormat& format : tool_formats()) formats.emplace_back(format.name);
  flags.add(
      "Chat, tools and structured output",
      {
          {"--alias", &serving.aliases,
           "further model name that requests may use; repeatable; *: any name"},
          Flag("--served-model-name", &options.name,
               "name of the model in answers and /metrics (default: name of the file or folder)")
              .called("NAME"),
          {"--chat-template", &options.chat_template_file,
           "file with a Jinja chat template that replaces the model's own"},
          Flag("--tool-format", &serving.chat.tool_format,
               "tool-call parser (default: detected from the chat template); none: tool calls stay "
               "text")
              .one_of(std::move(formats)),
          {"--reasoning-budget", as_count(serving.chat.reasoning_budget),
           "maximum number of reasoning tokens of an answer, after which the end of the reasoning "
           "is forced, for requests that set none (default: no limit); 0: no reasoning"},
          {"--reasoning-budget-message",
           Words{.type = "TEXT",
                 .read =
                     [&message = serving.chat.reasoning_budget_message](const std::string& text) {
                       constexpr size_t kMaxBytes = 1024;
                       message = text;
                       return text.size() <= kMaxBytes
                                  ? std::string()
                                  : fmt::format("expected at most {} bytes, found {}", kMaxBytes,
                                                text.size());
                     }},
           "text that is put before the forced end of the reasoning (default: none)"},
          {"--answer-memory", as_bytes(serving.chat.answer_memory_bytes),
           "memory for the tokens of earlier answers, so that a client that sends them back "
           "without reasoning or in another form continues the cached prefix (default: 16 MiB); "
           "0: off"},
          {"--schema-language",
           Words{.type = "canonical|full",
                 .read =
                     [&serving](const std::string& name) {
                       const auto language = schema_language_named(name);
                       if (!language) return "expected canonical or full, found " + name;
                       serving.chat.schema_language = *language;
                       return std::string();
                     }},
           "JSON documents that a schema allows in answers and tool arguments. canonical: closed "
           "objects, keys in the schema's order, plain numbers; full: all of JSON Schema (default: "
           "canonical)"},
      });
}

void add_adapters(Flags& flags, AdapterOptions& adapters) {
  flags.add(
      "Adapters",
      {
          Flag("--adapter", &adapters.named,
               "LoRA adapter: a PEFT folder or a GGUF file. Requests select it by the model name "
               "NAME or MODEL:NAME; repeatable")
              .called("NAME=PATH[:SCALE],…"),
          {"--adapter-memory", as_bytes(adapters.budget_bytes),
           "memory of adapters; the least recently used are unloaded (default: 1GiB)"},
          {"--adapter-folder", as_path(adapters.folder),
           "folder from which clients may load adapters by POST /v1/adapters (default: none)"},
      });
}

void add_security(Flags& flags, ServeOptions& options) {
  flags.add(
      "Security",
      {
          Flag("--api-key", &options.api_keys,
               "API key that clients must send, with operator rights; repeatable. Other users of "
               "this machine can read it in the process list; KVIK_API_KEY and --api-key-file hide "
               "it")
              .called("KEY,…"),
          {"--api-key-file", &options.api_key_file,
           "file of API keys, one per line: KEY [NAME [SALT]] [operator] [priority]"},
          {"--allow-no-key", &options.allow_no_key, "listen on a public address without API keys"},
          Flag("--allow-host", &options.server.allowed_hosts,
               "host name that requests may address, besides loopback names and --host; *: any")
              .called("NAME,…"),
          Flag("--cors", &options.server.cors_origins,
               "origin of web pages that may send requests, such as https://chat.example; *: any")
              .called("ORIGIN,…"),
      });
}

void add_observability(Flags& flags, ServeOptions& options) {
  flags.add("Observability",
            {
                {"--access-log", &options.server.access_log,
                 "file to which each request adds a line of JSON; -: stdout"},
                Flag("--price-input", &options.price_input,
                     "price of a million prompt tokens; answers and /metrics then state costs")
                    .between(0.0, 1e9),
                Flag("--price-cached", &options.price_cached,
                     "price of a million cached prompt tokens (default: that of --price-input)")
                    .between(0.0, 1e9),
                Flag("--price-output", &options.price_output, "price of a million generated tokens")
                    .between(0.0, 1e9),
            });
  options.kv_events.add_to(flags);
}

}  // namespace

MemoryBeside memory_beside(const ServeOptions& options) {
  const AdapterOptions& adapters = options.serving.adapters;
  const bool has_adapters = !adapters.named.empty() || !adapters.folder.empty();
  return {.kv_bytes = options.kv_bytes,
          .adapter_bytes = has_adapters ? adapters.budget_bytes : 0,
          .draft = options.speculation.draft};
}

void add_serve_flags(Flags& flags, ServeOptions& options) {
  add_model_flags(flags, options.model);
  flags.make_optional("MODEL");  // --models
  options.router.add_to(flags);
  add_cache(flags, options);
  options.tiers.add_to(flags);
  add_scheduling(flags, options);
  options.speculation.add_to(flags);
  add_chat(flags, options);
  add_adapters(flags, options.serving.adapters);
  add_network(flags, options);
  add_security(flags, options);
  add_observability(flags, options);
}

}  // namespace kvik
