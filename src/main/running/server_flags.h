#pragma once

#include <string>

#include "base/result.h"
#include "cli/remote/http_client.h"
#include "main/flags.h"

namespace kvik {

// The flags of commands that talk to a running server.
struct ServerFlags {
  std::string url;      // empty: kDefaultServerUrl, if there is a server; kNoServer
  std::string api_key;  // a list with commas, as for `kvik serve`, of which the first is sent

  void add_to(Flags& flags);
  // URL of no server, for scripts that must not depend on what runs.
  static constexpr const char* kNoServer = "none";

  bool is_off() const { return url == kNoServer; }
  // Returns whether the user named a server.
  bool names_server() const { return !url.empty() && !is_off(); }
  // Returns the API key to send; empty: none.
  std::string first_key() const { return api_key.substr(0, api_key.find(',')); }
  // Returns a client of the server. Errors: those of ServerUrl::parse(); kInvalidArgument for an
  // API key that cannot be sent.
  Result<HttpClient> client() const;
};

// Time limit for a server on this machine to describe itself.
inline constexpr Duration kAskTime = std::chrono::seconds(2);

}  // namespace kvik
