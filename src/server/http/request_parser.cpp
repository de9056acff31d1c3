#include "server/http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <iterator>
#include <optional>

#include "base/text/ascii_case.h"

namespace kvik {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

HttpFault fault_of(const beast::error_code& error, const RequestLimits& limits) {
  if (error == http::error::header_limit)
    return {431, fmt::format("the request's header is longer than {} bytes", limits.header_bytes)};
  if (error == http::error::body_limit)
    return {413, fmt::format("the request's body is longer than {} bytes", limits.body_bytes)};
  return {400, fmt::format("this is not an HTTP/1 request: {}", error.message())};
}

// Beast unfolds header lines, but other servers may not: RFC 9112, 5.2 requires servers to reject
// them. A head arrives as a whole.
bool has_folded_line(std::string_view head) {
  return head.find("\n ") != head.npos || head.find("\n\t") != head.npos;
}

}  // namespace

class RequestParser::Impl {
 public:
  explicit Impl(const RequestLimits& limits) : limits_(limits) {
    parser_.eager(false);  // stop after the head
    parser_.header_limit(static_cast<uint32_t>(limits.header_bytes));
    parser_.body_limit(limits.body_bytes);
  }

  std::expected<size_t, HttpFault> feed(std::string_view bytes) {
    beast::error_code error;
    const size_t n = parser_.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    // A body that is too long is known from the head, and so is the dialect of the rejection.
    if (error == http::error::body_limit && stage_ == Stage::kHead) take_head();
    if (error && error != http::error::need_more) return std::unexpected(fault_of(error, limits_));
    if (stage_ == Stage::kHead && parser_.is_header_done()) {
      if (has_folded_line(bytes.substr(0, n)))
        return std::unexpected(HttpFault{400, "a header field is folded over several lines"});
      if (auto fault = take_head()) return std::unexpected(std::move(*fault));
      stage_ = Stage::kBody;
      parser_.eager(true);
    }
    if (stage_ == Stage::kBody && parser_.is_done()) {
      request_.body = std::move(parser_.get().body());
      stage_ = Stage::kDone;
    }
    return n;
  }

  Stage stage_ = Stage::kHead;
  HttpRequest request_;

 private:
  std::optional<HttpFault> take_head() {
    const auto& message = parser_.get();
    const auto n_fields = std::distance(message.begin(), message.end());
    if (n_fields > static_cast<ptrdiff_t>(limits_.header_fields))
      return HttpFault{431, fmt::format("the request has {} header fields, {} are allowed",
                                        n_fields, limits_.header_fields)};
    for (const auto& field : message)
      request_.headers.emplace_back(ascii_lower(view(field.name_string())), view(field.value()));
    request_.method = view(message.method_string());
    request_.path = path_of_target(view(message.target()));
    request_.query = query_of_target(view(message.target()));
    const auto authority = authority_of_target(view(message.target()));
    request_.minor_version = message.version() >= 11 ? 1 : 0;
    request_.keep_alive = message.keep_alive();
    request_.has_body = !parser_.is_done();
    if (auto fault = check_framing()) return fault;
    return authority ? check_authority(*authority) : std::nullopt;
  }

  // RFC 9112, 3.2.2: the authority of the target replaces Host. Proxies may decide by either of
  // them, so they must not differ.
  std::optional<HttpFault> check_authority(std::string_view authority) {
    const auto host = request_.header("host");
    if (!host) request_.headers.emplace_back("host", authority);
    if (!authority.empty() && (!host || ascii_lower(*host) == ascii_lower(authority)))
      return std::nullopt;
    return HttpFault{400, fmt::format("the request's target names the host '{}', but Host is '{}'",
                                      printable(authority), printable(host.value_or("")))};
  }

  // Beast rejects Content-Length with "chunked"; this rejects encodings that it does not know.
  std::optional<HttpFault> check_framing() {
    const auto n_hosts =
        std::ranges::count(request_.headers, "host", &HttpHeaders::value_type::first);
    if (n_hosts > 1 || (n_hosts == 0 && request_.minor_version >= 1))
      return HttpFault{400, fmt::format("the request names {} hosts, expected one", n_hosts)};
    const auto encoding = request_.header("transfer-encoding");
    if (encoding && request_.header("content-length"))
      return HttpFault{400, "Content-Length and Transfer-Encoding exclude each other"};
    if (encoding && (ascii_lower(*encoding) != "chunked" || request_.minor_version == 0))
      return HttpFault{400,
                       fmt::format("the transfer encoding {} is not known", printable(*encoding))};
    if (const auto expect = request_.header("expect")) {
      if (ascii_lower(*expect) != "100-continue")
        return HttpFault{417, fmt::format("the expectation {} cannot be met", printable(*expect))};
      request_.expects_continue = request_.minor_version >= 1;
    }
    return std::nullopt;
  }

  RequestLimits limits_;
  http::request_parser<http::string_body> parser_;
};

RequestParser::RequestParser(const RequestLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

std::expected<size_t, HttpFault> RequestParser::feed(std::string_view bytes) {
  return impl_->feed(bytes);
}

RequestParser::Stage RequestParser::stage() const { return impl_->stage_; }
HttpRequest& RequestParser::request() { return impl_->request_; }

}  // namespace kvik
