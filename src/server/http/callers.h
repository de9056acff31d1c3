#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_message.h"
#include "server/http/status.h"

namespace kvik {

struct CallerOptions {
  std::string host = {};                  // what the server binds
  std::vector<std::string> hosts = {};    // further names that it answers to; "*": all
  std::vector<std::string> origins = {};  // pages that may call it, "https://a.example"; "*": all
};

// Which names the server answers to, and which web pages may call it.
//
// A page of anybody's can send requests to 127.0.0.1. One whose name was made to point there (DNS
// rebinding) can read the answers as well: its requests carry that name as Host. Any other says
// where it comes from: its requests carry an Origin, or change nothing. So names that are not ours
// and origins that nobody allowed are refused. Any thread.
class Callers {
 public:
  explicit Callers(const CallerOptions& options);

  // 403 where the request names a host that is not this one, or comes from a page of elsewhere.
  std::optional<HttpFault> refuse(const HttpRequest& head) const;
  // The same, of the page alone: probes come under any name.
  std::optional<HttpFault> refuse_origin(const HttpRequest& head) const;

  // The page of elsewhere that may read the answer; empty: none asks.
  std::string allowed_origin(const HttpRequest& head) const;

  // The answer to the question that a browser asks before a page's request; nullopt: it is none,
  // or nobody allowed that page.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;

 private:
  bool is_ours(std::string_view host) const;

  std::string bound_;  // lower case, without brackets
  bool is_bound_to_all_ = false;
  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
};

}  // namespace kvik
