#include "cli/remote/server_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/printable.h"

namespace kvik {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";

std::unexpected<Error> not_a_url(std::string_view text) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not the address of a server; expected http://HOST:PORT, such as "
                          "{}",
                          printable(text), kDefaultServerUrl));
}

std::optional<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || rest != end || port == 0) return std::nullopt;
  return port;
}

// Returns whether the text may stand in the head of a request.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 127; });
}

}  // namespace

Result<ServerUrl> ServerUrl::parse(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with(kHttps)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' needs TLS, which this command does not speak; expected "
                            "http://HOST:PORT, such as that of a proxy on this machine",
                            printable(text)));
  }
  if (rest.starts_with(kHttp)) rest.remove_prefix(kHttp.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  ServerUrl url;
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  std::string_view place = rest.substr(0, slash);
  if (!is_plain(rest) || url.path.find_first_of("?#") != std::string::npos) return not_a_url(text);
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return not_a_url(text);
    url.host = place.substr(1, end - 1);
    port = place.substr(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = place.substr(0, colon);
    port = place.substr(colon);
  }
  if (url.host.empty() || url.host.find('@') != std::string::npos) return not_a_url(text);
  if (port.empty()) return url;
  const auto number = port.starts_with(':') ? port_of(port.substr(1)) : std::nullopt;
  if (!number) return not_a_url(text);
  url.port = *number;
  return url;
}

std::string ServerUrl::authority() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string ServerUrl::text() const { return fmt::format("{}{}{}", kHttp, authority(), path); }

bool ServerUrl::is_loopback() const {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace kvik
