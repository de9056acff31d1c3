#include "tier/redis_address.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace kvik {
namespace {

std::unexpected<Error> wrong(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("invalid Redis address: {}; expected redis://HOST[:PORT][/DATABASE], "
                          "rediss://… for TLS, or unix:///PATH",
                          what));
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Removes the text before position `at` and the character there from `text`, and returns it;
// std::nullopt if `at` is npos.
std::optional<std::string_view> take_until(std::string_view& text, size_t at) {
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + 1);
  return before;
}

Result<void> read_database(RedisAddress& address, std::string_view text) {
  const auto database = number<uint32_t>(text);
  if (!database) return wrong(fmt::format("'{}' is not a database number", text));
  address.database = *database;
  return {};
}

Result<RedisAddress> parse_unix(std::string_view rest) {
  RedisAddress address{.transport = RedisAddress::Transport::kUnix};
  const size_t query = rest.find('?');
  address.host = rest.substr(0, query);
  if (!address.host.starts_with('/')) return wrong("the path of a socket begins with '/'");
  if (query == std::string_view::npos) return address;
  rest.remove_prefix(query + 1);
  if (!rest.starts_with("db=")) return wrong(fmt::format("'?{}' is not known", rest));
  TRY(read_database(address, rest.substr(3)));
  return address;
}

// Parses HOST[:PORT]; an IPv6 address is in brackets.
Result<void> read_host(RedisAddress& address, std::string_view text) {
  size_t end = text.rfind(':');
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return wrong("'[' without ']'");
    address.host = text.substr(1, bracket - 1);
    end = bracket + 1 < text.size() ? bracket + 1 : std::string_view::npos;
    if (end != std::string_view::npos && text[end] != ':') return wrong("text after ']'");
  } else {
    address.host = text.substr(0, end);
  }
  if (address.host.empty()) return wrong("it has no host");
  if (end == std::string_view::npos) return {};
  const auto port = number<uint16_t>(text.substr(end + 1));
  if (!port || *port == 0)
    return wrong(fmt::format("'{}' is not a port number", text.substr(end + 1)));
  address.port = *port;
  return {};
}

}  // namespace

std::string RedisAddress::printable() const {
  if (transport == Transport::kUnix) return fmt::format("unix://{}?db={}", host, database);
  return fmt::format("{}://{}:{}/{}", transport == Transport::kTls ? "rediss" : "redis", host, port,
                     database);
}

Result<RedisAddress> parse_redis_address(std::string_view url) {
  const size_t colon = url.find("://");
  if (colon == std::string_view::npos) return wrong("it has no scheme");
  const std::string_view scheme = url.substr(0, colon);
  std::string_view rest = url.substr(colon + 3);
  if (scheme == "unix") return parse_unix(rest);
  if (scheme != "redis" && scheme != "rediss") {
    return wrong(fmt::format("unknown scheme '{}'", scheme));
  }
  RedisAddress address;
  if (scheme == "rediss") address.transport = RedisAddress::Transport::kTls;
  if (auto account = take_until(rest, rest.rfind('@'))) {
    const auto user = take_until(*account, account->find(':'));
    if (user) address.user = *user;
    address.password = *account;
  }
  const size_t slash = rest.find('/');
  TRY(read_host(address, rest.substr(0, slash)));
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    TRY(read_database(address, rest.substr(slash + 1)));
  }
  return address;
}

}  // namespace kvik
