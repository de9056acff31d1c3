#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "main/flags.h"
#include "main/serve/router_list.h"
#include "main/serve/router_options.h"
#include "server/http/listen_socket.h"
#include "server/server_options.h"

namespace kvik {

class ServiceManager;

// Time for running requests to end when the server stops.
inline constexpr std::chrono::seconds kDrainTime{30};

// Resources that the server of one model needs.
struct ServerPlan {
  uint64_t n_bytes = 0;         // memory of its process
  uint64_t kv_bytes = 0;        // memory of its KV cache
  bool sets_kv_memory = false;  // the arguments have --kv-memory
  // Present for an encoder: the tokens of its longest text. It has no cache, and takes neither
  // tiers nor a larger --ctx.
  std::optional<uint32_t> encoder_ctx = {};
};

struct RouterSetup {
  ServerOptions server;
  RouterOptions options;
  RouterList& models;
  std::vector<GivenFlag> flags;       // given for all models
  std::vector<std::string> api_keys;  // of --api-key
  std::string disk;                   // --disk; empty: none
  uint64_t disk_bytes = 0;            // of all models
  // Plans the server with these arguments of `kvik serve`. If they have no --kv-memory, it chooses
  // one for a process of at most `max_bytes`. Errors: those of opening the model.
  std::function<Result<ServerPlan>(const std::vector<std::string>& arguments, uint64_t max_bytes)>
      plan;
  const ServiceManager& manager;  // that started this process
};

// Serves several models, each in a process of its own, until a signal ends it. Returns the exit
// code.
Result<int> serve_router(const RouterSetup& setup, const ListenSocket& socket);

}  // namespace kvik
