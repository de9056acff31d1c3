#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/dialects/prices.h"

namespace kvik {

class LoadProgress;
class ModelLibrary;
class ResponseArchive;
struct ModelRouter;

// An API key and its rights.
struct ApiKey {
  std::string secret;
  std::string name = {};        // the tenant to which its requests belong
  std::string cache_salt = {};  // not empty: no page is shared with other salts
  bool is_operator = false;     // may see global information: metrics, the live view
  // its priorities apply among all tenants, not only among its own requests
  bool may_outrank = false;
};

// PEM files: the certificate chain, and its private key.
struct TlsFiles {
  std::string certificate;
  std::string key;
};

// Planned memory of a part of the program.
struct PlannedMemory {
  std::string name;
  uint64_t n_bytes = 0;
};

// Options of the HTTP server. Times are upper bounds.
struct ServerOptions {
  std::string host = "127.0.0.1";               // an address or a name; "localhost" is 127.0.0.1
  uint16_t port = 8080;                         // 0: any free port
  std::string version = "0";                    // version reported by /version
  std::vector<std::string> allowed_hosts = {};  // names besides loopback and `host`; "*": all
  std::vector<std::string> cors_origins = {};   // origins of pages that may send requests; "*": all
  std::optional<TlsFiles> tls;                  // present: HTTPS only

  // a file for one line of JSON per request, "-" for stdout; empty: none
  std::string access_log = {};

  // Absent: no key is needed. Present: every route except the health probes and the page needs one
  // of these.
  std::optional<std::vector<ApiKey>> api_keys;

  ResponseArchive* responses = nullptr;  // stores responses persistently; borrowed
  ModelLibrary* model_library =
      nullptr;  // models that clients may list and download; borrowed; null: none

  // progress while the model is being loaded: every route except /livez returns 503; null: it is
  // loaded. Borrowed.
  const LoadProgress* loading = nullptr;

  // the models of a router, each served by a process of its own; null: this server has one model.
  // Borrowed.
  const ModelRouter* router = nullptr;

  std::vector<PlannedMemory> memory_plan = {};  // planned memory for /metrics; empty: not known

  std::optional<Prices> prices;  // absent: answers state no cost

  // Called with 1 and -1 when a response that is computed without a connection begins and ends, on
  // any thread. Empty: not called.
  std::function<void(int)> on_background = {};

  // Beyond the limit, connections that have not sent a whole request are closed, the oldest first;
  // otherwise new ones are rejected with 503, except for health probes.
  uint32_t max_connections = 4096;
  size_t header_limit_bytes = size_t{64} << 10;
  uint32_t max_header_fields = 256;
  // Limits of one request's body, and of everything held for clients besides the cache; absent: as
  // RequestBounds derives from the model's context.
  std::optional<size_t> body_limit_bytes = {};
  std::optional<size_t> memory_limit_bytes = {};
  // larger bodies are parsed and tokenized on other threads
  size_t offload_body_bytes = size_t{8} << 10;

  // Limit of a stream's unsent results, per choice. A stream that exceeds it is canceled because
  // its reader is too slow. Waiting results are merged to little more than their text, so this
  // holds about 6,000 tokens.
  size_t stream_buffer_bytes = size_t{32} << 10;
  // SO_SNDBUF of a connection, which the kernel doubles. In addition to stream_buffer_bytes.
  int socket_send_buffer_bytes = 16 << 10;

  // Time from the connection to the first byte of its first request, and from that byte to the end
  // of the header.
  std::chrono::milliseconds header_timeout{10'000};
  // the same for connections beyond max_connections
  std::chrono::milliseconds rejected_timeout{1'000};
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};  // time for each 64 KiB of an answer
  std::chrono::milliseconds heartbeat{10'000};      // interval of comments in a silent stream
  std::chrono::milliseconds linger{2'000};  // lets a rejected client read the reason before closing
  std::chrono::milliseconds tidy_every{1'000};  // interval of returning freed memory to the system
  // time for the final events of streams that stop() cancels
  std::chrono::milliseconds abort_grace{1'000};
};

}  // namespace kvik
