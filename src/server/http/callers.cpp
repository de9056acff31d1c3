#include "server/http/callers.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text/ascii_case.h"
#include "server/http/listen_address.h"
#include "server/server.h"

namespace kvik {
namespace {

// "Name.Example.:8080" → "name.example", "[::1]:80" → "::1".
std::string host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    return ascii_lower(authority.substr(1, std::max<size_t>(authority.find(']'), 1) - 1));
  }
  std::string host = ascii_lower(authority.substr(0, authority.rfind(':')));
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool is_address(const std::string& host) {
  std::array<uint8_t, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const auto& one) { return one == "*" || one == name; });
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Normalizes as browsers do: "HTTPS://A.Example/" is "https://a.example".
std::string origin_of(std::string_view text) {
  std::string origin = ascii_lower(text);
  if (origin.ends_with('/')) origin.pop_back();
  return origin;
}

// Returns the part after "https://" of an origin; empty for "null".
std::string_view authority_of(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? "" : origin.substr(scheme + 3);
}

}  // namespace

Callers::Callers(const CallerOptions& options)
    : bound_(ascii_lower(bind_address(options.host))),
      is_bound_to_all_(bound_ == "0.0.0.0" || bound_ == "::") {
  for (const std::string& host : options.hosts) hosts_.push_back(host_of(host));
  for (const std::string& origin : options.origins) origins_.push_back(origin_of(origin));
}

// An IP address cannot be a rebound name; a server bound to all addresses accepts any.
bool Callers::is_ours(std::string_view authority) const {
  const std::string host = host_of(authority);
  return host == "localhost" || host.ends_with(".localhost") || is_loopback(host) ||
         host == bound_ || (is_bound_to_all_ && is_address(host)) || holds(hosts_, host);
}

std::optional<HttpFault> Callers::refuse(const HttpRequest& head) const {
  const auto host = head.header("host");
  if (host && !is_ours(*host)) {
    return HttpFault{403, fmt::format("the host name '{}' is not allowed; start the server with "
                                      "--allow-host NAME to accept it",
                                      printable(*host))};
  }
  return refuse_origin(head);
}

std::optional<HttpFault> Callers::refuse_origin(const HttpRequest& head) const {
  const auto origin = head.header("origin");
  if (!origin || holds(origins_, ascii_lower(*origin))) return std::nullopt;
  const auto host = head.header("host");
  const std::string_view authority = authority_of(*origin);
  if (host && is_ours(*host) && !authority.empty() && ascii_lower(authority) == ascii_lower(*host))
    return std::nullopt;
  return HttpFault{
      403, fmt::format(
               "the origin '{}' is not allowed; start the server with --cors ORIGIN to accept it",
               printable(*origin))};
}

std::string Callers::allowed_origin(const HttpRequest& head) const {
  const auto origin = head.header("origin");
  return origin && holds(origins_, ascii_lower(*origin)) ? std::string(*origin) : "";
}

std::optional<HttpResponse> Callers::preflight(const HttpRequest& head) const {
  if (head.method != "OPTIONS" || !head.header("access-control-request-method") ||
      allowed_origin(head).empty()) {
    return std::nullopt;
  }
  HttpResponse response{.status = 204, .body = ""};
  response.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE"},
                      {"Access-Control-Max-Age", "600"}};
  // Requested headers are allowed as requested.
  const auto wanted = head.header("access-control-request-headers");
  if (wanted && is_printable(*wanted)) {
    response.headers.emplace_back("Access-Control-Allow-Headers", *wanted);
  }
  if (head.header("access-control-request-private-network")) {
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

}  // namespace kvik
