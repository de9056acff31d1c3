#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvik {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }

  // Returns the data of a stream's events, named or not, in order.
  std::vector<std::string> events() const {
    std::vector<std::string> events;
    std::string_view rest = body;
    for (size_t end = rest.find("\n\n"); end != rest.npos; end = rest.find("\n\n")) {
      std::string_view event = rest.substr(0, end);
      if (event.starts_with("event: ")) event.remove_prefix(event.find('\n') + 1);
      if (event.starts_with("data: ")) events.emplace_back(event.substr(6));
      rest.remove_prefix(end + 2);
    }
    return events;
  }
};

// An HTTP client over a raw socket, so that tests can send invalid HTTP. Every read fails after 20
// s without data.
class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd_ >= 0);
    // Set before connect(), which negotiates the TCP window.
    if (receive_buffer_bytes > 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}
  ~RawClient() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }

  // Returns false if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  bool has_input(int wait_ms) {
    if (!buffer_.empty()) return true;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, wait_ms) > 0;
  }

  // Returns everything up to and including `mark`; empty if the server closes first.
  std::string read_until(std::string_view mark) {
    size_t end = buffer_.find(mark);
    while (end == std::string::npos && read_more()) end = buffer_.find(mark);
    if (end == std::string::npos) return "";
    return take(end + mark.size());
  }

  std::string read_to_end() {
    while (read_more()) continue;
    return take(buffer_.size());
  }

  RawResponse read_head() {
    RawResponse response;
    std::string_view head_view;
    const std::string head = read_until("\r\n\r\n");
    head_view = head;
    if (head.size() < 12) return response;
    response.status = std::atoi(head.substr(9, 3).c_str());
    head_view.remove_prefix(head_view.find("\r\n") + 2);
    for (size_t end = head_view.find("\r\n"); end != 0 && end != head_view.npos;
         end = head_view.find("\r\n")) {
      const std::string_view line = head_view.substr(0, end);
      const size_t colon = line.find(": ");
      std::string name(line.substr(0, colon));
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      response.headers[name] = line.substr(colon + 2);
      head_view.remove_prefix(end + 2);
    }
    return response;
  }

  RawResponse read_response() {
    RawResponse response = read_head();
    if (response.header("transfer-encoding") == "chunked") {
      while (const auto chunk = read_chunk()) response.body += *chunk;
    } else if (response.headers.contains("content-length")) {
      response.body = read_exactly(std::stoul(response.header("content-length")));
    } else {
      response.body = read_to_end();
    }
    return response;
  }

  RawResponse get(std::string_view path, std::string_view headers = "") {
    send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "\r\n");
    return read_response();
  }

  void send_post(std::string_view path, std::string_view body, std::string_view headers = "") {
    send("POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }

  RawResponse post(std::string_view path, std::string_view body, std::string_view headers = "") {
    send_post(path, body, headers);
    return read_response();
  }

  // Returns the data of the next chunk; std::nullopt after the last one or if the server closes.
  std::optional<std::string> read_chunk() {
    const std::string line = read_until("\r\n");
    const size_t size = std::strtoul(line.c_str(), nullptr, 16);
    std::string data = read_exactly(size + 2);
    if (size == 0 || data.size() != size + 2) return std::nullopt;
    data.resize(size);
    return data;
  }

 private:
  std::string read_exactly(size_t size) {
    while (buffer_.size() < size && read_more()) continue;
    return take(std::min(size, buffer_.size()));
  }

  std::string take(size_t size) {
    std::string front = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return front;
  }

  bool read_more() {
    constexpr int kPatienceMs = 20'000;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kPatienceMs) <= 0) return false;
    char chunk[16384];
    const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(n));
    return true;
  }

  int fd_ = -1;
  std::string buffer_;
};

}  // namespace kvik
