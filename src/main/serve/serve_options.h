#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "host/instance.h"
#include "host/load_model.h"
#include "main/flags.h"
#include "main/serve/kv_event_options.h"
#include "main/serve/router_options.h"
#include "main/speculation_flags.h"
#include "main/tier_options.h"
#include "server/server_options.h"

namespace kvik {

// The options of `kvik serve`.
struct ServeOptions {
  ModelOptions model;
  ServerOptions server;
  TierOptions tiers;
  KvEventFlags kv_events;
  SpeculationFlags speculation;
  ServingOptions serving;
  RouterOptions router;
  std::string name;  // --served-model-name; empty: that of the file
  std::string chat_template_file;
  std::optional<uint64_t> kv_bytes;  // absent: chosen by choose_memory()
  std::optional<uint64_t> request_memory;
  uint32_t max_queue = EngineOptions{}.max_queue;
  uint32_t max_running = EngineOptions{}.max_running;
  Duration itl_target = std::chrono::milliseconds(50);
  std::optional<double> price_input, price_cached, price_output;  // per million tokens
  std::string api_key_file;
  std::vector<std::string> api_keys;
  std::string share;  // empty: two if there are API keys, otherwise all
  TlsFiles tls;
  bool allow_no_key = false;
};

// Returns the memory of the engine besides the model. Adapters count if there may be any.
MemoryBeside memory_beside(const ServeOptions& options);

// Adds the flags of `kvik serve`.
void add_serve_flags(Flags& flags, ServeOptions& options);

}  // namespace kvik
