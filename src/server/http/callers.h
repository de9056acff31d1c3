#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_message.h"
#include "server/http/status.h"

namespace kvik {

// Host names and origins to accept.
struct CallerOptions {
  std::string host = {};                // address that the server binds
  std::vector<std::string> hosts = {};  // further accepted names; "*": all
  // origins of pages that may send requests, "https://a.example"; "*": all
  std::vector<std::string> origins = {};
};

// Decides which host names the server accepts, and which web pages may send requests.
//
// Any web page can send requests to 127.0.0.1. A page whose host name was made to resolve there
// (DNS rebinding) can also read the answers: its requests have that name as Host. Any other page is
// identified by the Origin header of requests that change something. Therefore foreign host names
// and origins that were not allowed are rejected. Any thread.
class Callers {
 public:
  explicit Callers(const CallerOptions& options);

  // Returns 403 if the request names a foreign host, or comes from a page of another origin.
  std::optional<HttpFault> refuse(const HttpRequest& head) const;
  // The same for the origin only: health probes may use any name.
  std::optional<HttpFault> refuse_origin(const HttpRequest& head) const;

  // Returns the origin that may read the answer; empty: none.
  std::string allowed_origin(const HttpRequest& head) const;

  // Returns the answer to a CORS preflight request; std::nullopt if it is not one, or the origin is
  // not allowed.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;

 private:
  bool is_ours(std::string_view host) const;

  std::string bound_;  // lowercase, without brackets
  bool is_bound_to_all_ = false;
  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
};

}  // namespace kvik
