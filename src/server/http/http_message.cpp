#include "server/http/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iterator>
#include <utility>

namespace kvik {
namespace {

constexpr std::pair<unsigned, std::string_view> kPhrases[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

std::string_view reason_phrase(unsigned status) {
  const auto* const found = std::ranges::find(kPhrases, status, [](auto& p) { return p.first; });
  return found == std::end(kPhrases) ? "Status" : found->second;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, size};
}

std::optional<char> hex_pair(std::string_view digits) {
  unsigned value = 0;
  if (digits.size() < 2) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 2, value, 16);
  if (error != std::errc{} || end != digits.data() + 2) return std::nullopt;
  return static_cast<char>(value);
}

std::string decoded(std::string_view escaped) {
  std::string text;
  for (size_t i = 0; i < escaped.size(); ++i) {
    const auto byte = escaped[i] == '%' ? hex_pair(escaped.substr(i + 1)) : std::nullopt;
    text += byte.value_or(escaped[i]);
    if (byte) i += 2;
  }
  return text;
}

}  // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return std::nullopt;
}

std::string serialize(const HttpResponse& response, const HttpFraming& framing) {
  std::string out;
  const auto into = std::back_inserter(out);
  fmt::format_to(into, "HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\nx-request-id: {}\r\n",
                 response.status, reason_phrase(response.status), http_date(),
                 response.content_type, framing.request_id);
  // Anthropic's clients expect this header.
  if (framing.error_shape == ErrorShape::kAnthropic)
    fmt::format_to(into, "request-id: {}\r\n", framing.request_id);
  for (const auto& [name, value] : response.headers)
    fmt::format_to(into, "{}: {}\r\n", name, value);
  if (!framing.allowed_origin.empty())
    fmt::format_to(into,
                   "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
                   "Access-Control-Expose-Headers: x-request-id, request-id, retry-after\r\n",
                   framing.allowed_origin);
  const bool is_streamed = framing.body == HttpFraming::Body::kStreamed;
  // The length of a 304 would be that of the answer it represents; a 204 has none.
  if (!is_streamed && response.status != 304 && response.status != 204)
    fmt::format_to(into, "Content-Length: {}\r\n", response.body.size());
  if (is_streamed && framing.minor_version >= 1) out += "Transfer-Encoding: chunked\r\n";
  if (framing.after == HttpFraming::After::kClose)
    out += "Connection: close\r\n";
  else if (framing.minor_version == 0)
    out += "Connection: keep-alive\r\n";
  out += "\r\n";
  if (framing.body == HttpFraming::Body::kSent) out += response.body;
  return out;
}

std::string frame_part(std::string_view part, const HttpFraming& framing) {
  // An empty chunk would end the body.
  if (part.empty() || framing.minor_version == 0) return std::string(part);
  return fmt::format("{:x}\r\n{}\r\n", part.size(), part);
}

std::string frame_end(const HttpFraming& framing) {
  return framing.minor_version == 0 ? "" : "0\r\n\r\n";
}

std::optional<std::string_view> authority_of_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    return target.substr(0, target.find_first_of("/?#"));
  }
  return std::nullopt;
}

std::string path_of_target(std::string_view target) {
  if (const auto authority = authority_of_target(target)) {
    target.remove_prefix(static_cast<size_t>(authority->data() - target.data()));
    target.remove_prefix(authority->size());
    if (!target.starts_with('/')) target = "/";
  }
  return decoded(target.substr(0, target.find_first_of("?#")));
}

std::string_view query_of_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? "" : target.substr(mark + 1);
}

std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (decoded(pair.substr(0, equals)) != name) continue;
    std::string value(pair.substr(std::min(equals + 1, pair.size())));
    std::ranges::replace(value, '+', ' ');
    return decoded(value);
  }
  return "";
}

}  // namespace kvik
