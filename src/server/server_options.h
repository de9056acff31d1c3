#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/dialects/prices.h"

namespace kvik {

class LoadProgress;
class ResponseArchive;

// One who may call, by what they send.
struct ApiKey {
  std::string secret;
  std::string name = {};        // the tenant that its requests count for
  std::string cache_salt = {};  // not empty: they share no page with callers of another salt
  bool is_operator = false;     // sees what concerns all: metrics, the live view
  bool may_outrank = false;  // its priorities count among all tenants, not its own requests alone
};

// PEM files: the certificate with the chain up to its issuer, and its private key.
struct TlsFiles {
  std::string certificate;
  std::string key;
};

// Memory that a part of the program may take.
struct PlannedMemory {
  std::string name;
  uint64_t n_bytes = 0;
};

// What an operator may set of the HTTP server. Times are upper bounds; see docs of each.
struct ServerOptions {
  std::string host = "127.0.0.1";               // an address, or a name; "localhost" is 127.0.0.1
  uint16_t port = 8080;                         // 0: any free one
  std::string version = "0";                    // what /version says
  std::vector<std::string> allowed_hosts = {};  // names besides loopback and `host`; "*": all
  std::vector<std::string> cors_origins = {};   // of pages that may call; "*": all
  std::optional<TlsFiles> tls;                  // present: HTTPS, and nothing else, on that port

  std::string access_log = {};  // a file for one JSON line a request, "-" for stdout; empty: none

  // Absent: everyone may call. Present: every route but health, livez and readyz wants one of
  // these.
  std::optional<std::vector<ApiKey>> api_keys;

  ResponseArchive* responses = nullptr;  // where kept responses outlive the server; borrowed

  // Null: the model is loaded. Else every route but /livez answers 503; borrowed.
  const LoadProgress* loading = nullptr;

  std::vector<PlannedMemory> memory_plan = {};  // for /metrics; empty: not known

  std::optional<Prices> prices;  // absent: answers tell no cost

  // With more, those go that have not sent a whole request, the oldest first; then new ones are
  // answered 503, but for probes.
  uint32_t max_connections = 4096;
  size_t header_limit_bytes = size_t{64} << 10;
  uint32_t max_header_fields = 256;
  // Of one request's body, and of all that is held for clients beside the cache; absent: what
  // RequestBounds say of the model's context.
  std::optional<size_t> body_limit_bytes = {};
  std::optional<size_t> memory_limit_bytes = {};
  size_t offload_body_bytes = size_t{8} << 10;  // larger ones are parsed and tokenized elsewhere

  // A stream whose unsent news exceed this, for each of its choices, is cancelled: its reader is
  // too slow. News of a reader that is far behind are little more than their text, so this holds
  // some 6,000 tokens of it.
  size_t stream_buffer_bytes = size_t{32} << 10;
  // The kernel's buffer for one connection, of which it uses twice as much; on top of
  // stream_buffer_bytes.
  int socket_send_buffer_bytes = 16 << 10;

  // From a connection to its first request's first byte, and from that to the header's last.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds turned_away_timeout{1'000};  // to that of one beyond max_connections
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};  // for each 64 KiB of an answer
  std::chrono::milliseconds heartbeat{10'000};      // a silent stream sends a comment
  std::chrono::milliseconds linger{2'000};       // to let a refused client read why, before closing
  std::chrono::milliseconds tidy_every{1'000};   // what was freed goes back to the system
  std::chrono::milliseconds abort_grace{1'000};  // for the last words of streams cut off by stop()
};

}  // namespace kvik
