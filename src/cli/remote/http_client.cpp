#include "cli/remote/http_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstring>

#include "base/file/file_descriptor.h"
#include "base/printable.h"

namespace kvik {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace json = boost::json;

constexpr Duration kConnectTime = std::chrono::seconds(5);
constexpr Duration kSendTime = std::chrono::seconds(60);
constexpr size_t kMaxEvent = size_t{16} << 20;
constexpr size_t kMaxBody = size_t{64} << 20;
// Longest answer in all. The parser reserves as much as Content-Length says, without writing to it.
constexpr size_t kMaxAnswer = size_t{1} << 30;

TimePoint after(Duration timeout) { return std::chrono::steady_clock::now() + timeout; }

// Waits until the socket is ready; returns 0, or an errno. Without a deadline it waits for ever.
int wait_for(int fd, short events, std::optional<TimePoint> deadline) {
  pollfd what{.fd = fd, .events = events, .revents = 0};
  while (true) {
    int left_ms = -1;
    if (deadline) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          *deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return ETIMEDOUT;
      left_ms = static_cast<int>(left.count());
    }
    const int n = ::poll(&what, 1, left_ms);
    if (n > 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
  }
}

// Connects to an address. Returns 0, or an errno.
int connect_to(const addrinfo& place, TimePoint deadline, FileDescriptor& out) {
  FileDescriptor fd(
      ::socket(place.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, place.ai_protocol));
  if (!fd.is_open()) return errno;
  if (::connect(fd.get(), place.ai_addr, place.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (const int error = wait_for(fd.get(), POLLOUT, deadline)) return error;
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  out = std::move(fd);
  return 0;
}

Result<FileDescriptor> connect_to(const ServerUrl& url, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("the host {} is not known: {}", url.host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* place = found; place; place = place->ai_next) {
    FileDescriptor fd;
    error = connect_to(*place, deadline, fd);
    if (error == 0) return fd;
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no server answers at {}: {}", url.text(), std::strerror(error)));
}

ErrorCode code_of(unsigned status, std::string_view name) {
  if (name == "context_length_exceeded") return ErrorCode::kContextLength;
  if (status == 404) return ErrorCode::kNotFound;
  if (status == 429) return ErrorCode::kExhausted;
  if (status == 503) return ErrorCode::kUnavailable;
  return status >= 400 && status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kIo;
}

std::string text_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

Error error_of(const HttpAnswer& answer) {
  std::error_code failed;
  const json::value parsed = json::parse(answer.body, failed);
  const json::object* const body = failed ? nullptr : parsed.if_object();
  const json::value* const inner = body ? body->if_contains("error") : nullptr;
  if (inner && inner->is_object()) {
    std::string message = text_member(inner->get_object(), "message");
    const std::string name = text_member(inner->get_object(), "code");
    if (!message.empty()) return {code_of(answer.status, name), std::move(message)};
  }
  // While a model is being loaded the server states its progress.
  if (std::string message = body ? text_member(*body, "message") : std::string();
      !message.empty()) {
    return {code_of(answer.status, ""), std::move(message)};
  }
  return {code_of(answer.status, ""), fmt::format("the server answered with {}", answer.status)};
}

class HttpStream::Impl {
 public:
  Impl(FileDescriptor fd, std::string name, std::optional<TimePoint> deadline)
      : fd_(std::move(fd)), name_(std::move(name)), deadline_(deadline) {
    parser_.body_limit(kMaxAnswer);
    parser_.eager(true);
  }

  Result<void> send(std::string_view bytes) {
    const TimePoint deadline = deadline_.value_or(after(kSendTime));
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
        continue;
      }
      if (errno == EINTR) continue;
      const int error = errno == EAGAIN ? wait_for(fd_.get(), POLLOUT, deadline) : errno;
      // A server that rejects a body may answer without reading all of it.
      if (error == EPIPE || error == ECONNRESET) return {};
      if (error != 0) return broken(std::strerror(error));
    }
    return {};
  }

  Result<unsigned> status() {
    while (!parser_.is_header_done()) TRY(read_more());
    return parser_.get().result_int();
  }

  // Returns the next line of the body without its line break; std::nullopt at the end.
  Result<std::optional<std::string>> next_line() {
    while (true) {
      const size_t end = rest_.find('\n', n_searched_);
      if (end != std::string::npos) {
        std::string line = rest_.substr(0, end);
        rest_.erase(0, end + 1);
        n_searched_ = 0;
        if (line.ends_with('\r')) line.pop_back();
        return std::optional(std::move(line));
      }
      n_searched_ = rest_.size();
      if (parser_.is_done()) return std::optional<std::string>();
      if (rest_.size() > kMaxEvent) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("{} sent an event of more than {} bytes", name_, kMaxEvent));
      }
      TRY(read_more());
    }
  }

  Result<std::string> body() {
    TRY(status());
    while (!parser_.is_done()) {
      if (rest_.size() > kMaxBody) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("{} sent more than {} bytes", name_, kMaxBody));
      }
      TRY(read_more());
    }
    return std::exchange(rest_, {});
  }

  void stop() { ::shutdown(fd_.get(), SHUT_RDWR); }

 private:
  std::unexpected<Error> broken(std::string_view why) const {
    return fail(ErrorCode::kIo, fmt::format("the connection to {} broke: {}", name_, why));
  }

  // Reads what has arrived, at least one byte, and appends the new part of the body to rest_.
  Result<void> read_more() {
    if (!begin_) begin_ = std::make_unique<Buffer>();
    if (const int error = wait_for(fd_.get(), POLLIN, deadline_)) {
      if (error == ETIMEDOUT) {
        return fail(ErrorCode::kIo, fmt::format("{} does not answer", name_));
      }
      return broken(std::strerror(error));
    }
    const ssize_t n = ::recv(fd_.get(), begin_->data() + n_held_, begin_->size() - n_held_, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (n < 0) return broken(std::strerror(errno));
    beast::error_code error;
    if (n == 0) {
      if (parser_.got_some()) parser_.put_eof(error);  // put_eof() requires that
      if (error || !parser_.is_done())
        return broken("it was closed before the answer was complete");
      return {};
    }
    n_held_ += static_cast<size_t>(n);
    return parse();
  }

  Result<void> parse() {
    beast::error_code error;
    size_t n_parsed = 0;
    while (n_parsed < n_held_ && !parser_.is_done()) {
      const size_t n =
          parser_.put(boost::asio::buffer(begin_->data() + n_parsed, n_held_ - n_parsed), error);
      n_parsed += n;
      if (error == http::error::need_more) break;
      if (error) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("{} does not speak HTTP: {}", name_, error.message()));
      }
      if (n == 0) break;
    }
    // The parser keeps no bytes of its own: an incomplete head or chunk header stays in the buffer.
    std::memmove(begin_->data(), begin_->data() + n_parsed, n_held_ - n_parsed);
    n_held_ -= n_parsed;
    if (n_held_ == begin_->size()) {
      return fail(ErrorCode::kCorrupt, fmt::format("{} sent a head that is too long", name_));
    }
    rest_ += parser_.get().body();
    parser_.get().body().clear();
    return {};
  }

  using Buffer = std::array<char, size_t{64} << 10>;

  FileDescriptor fd_;
  const std::string name_;  // of the server, for errors
  const std::optional<TimePoint> deadline_;
  http::response_parser<http::string_body> parser_;
  std::unique_ptr<Buffer> begin_;  // received bytes that are not parsed yet
  size_t n_held_ = 0;              // number of them
  std::string rest_;               // the part of the body that was not returned yet
  size_t n_searched_ = 0;          // bytes of it without a line break
};

HttpStream::HttpStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpStream::~HttpStream() = default;

Result<unsigned> HttpStream::status() { return impl_->status(); }

Result<std::optional<std::string>> HttpStream::next_event() {
  TRY(impl_->status());
  constexpr std::string_view kData = "data:";
  while (true) {
    TRY_ASSIGN(auto line, impl_->next_line());
    if (!line) return line;
    if (!line->starts_with(kData)) continue;  // a comment, a name or an empty line
    line->erase(0, line->starts_with("data: ") ? kData.size() + 1 : kData.size());
    return line;
  }
}

Result<std::string> HttpStream::body() { return impl_->body(); }

void HttpStream::stop() { impl_->stop(); }

struct HttpClient::Call {
  std::string_view method, path, json;
  std::optional<TimePoint> deadline;
};

Result<std::unique_ptr<HttpStream>> HttpClient::send(const Call& call) const {
  TRY_ASSIGN(FileDescriptor fd, connect_to(url_, call.deadline.value_or(after(kConnectTime))));
  std::string bytes = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
                                  call.method, url_.path, call.path, url_.authority());
  if (!api_key_.empty()) bytes += fmt::format("Authorization: Bearer {}\r\n", api_key_);
  if (call.method == "POST") {
    bytes +=
        fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", call.json.size());
  }
  bytes += "\r\n";
  bytes += call.json;
  auto impl = std::make_unique<HttpStream::Impl>(std::move(fd), url_.text(), call.deadline);
  TRY(impl->send(bytes));
  return std::unique_ptr<HttpStream>(new HttpStream(std::move(impl)));
}

Result<HttpAnswer> HttpClient::answer_to(const Call& call) const {
  TRY_ASSIGN(const auto stream, send(call));
  HttpAnswer answer;
  TRY_ASSIGN(answer.status, stream->status());
  TRY_ASSIGN(answer.body, stream->body());
  return answer;
}

Result<HttpAnswer> HttpClient::get(std::string_view path, Duration timeout) const {
  return answer_to({.method = "GET", .path = path, .json = {}, .deadline = after(timeout)});
}

Result<HttpAnswer> HttpClient::post(std::string_view path, std::string_view json,
                                    Duration timeout) const {
  return answer_to({.method = "POST", .path = path, .json = json, .deadline = after(timeout)});
}

Result<std::unique_ptr<HttpStream>> HttpClient::open(std::string_view path,
                                                     std::string_view json) const {
  return send({.method = "POST", .path = path, .json = json, .deadline = std::nullopt});
}

}  // namespace kvik
