#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/file/file_descriptor.h"
#include "cli/remote/http_client.h"

namespace kvik {

// A server on this machine that gives one answer per connection, in the order of the list. Each
// answer is a list of pieces that are sent one by one.
class CannedServer {
 public:
  using Answer = std::vector<std::string>;

  explicit CannedServer(std::deque<Answer> answers) : answers_(std::move(answers)) {
    listener_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~CannedServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  HttpClient client(std::string api_key = "") const {
    return HttpClient({.host = "127.0.0.1", .port = port_}, std::move(api_key));
  }
  // Returns the requests so far. Call after the answers were read.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  void serve() {
    while (!answers_.empty()) {
      const FileDescriptor peer(::accept(listener_.get(), nullptr, nullptr));
      if (!peer.is_open()) return;
      requests_.push_back(read_request(peer.get()));
      for (const std::string& piece : answers_.front()) {
        [[maybe_unused]] const auto n =
            ::send(peer.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
        std::this_thread::yield();
      }
      answers_.pop_front();
    }
  }

  static std::string read_request(int fd) {
    std::string text;
    char buffer[4096];
    const auto is_whole = [&] {
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) return false;
      const size_t length = text.find("Content-Length: ");
      const size_t n_body = length < head ? std::stoul(text.substr(length + 16)) : 0;
      return text.size() >= head + 4 + n_body;
    };
    while (!is_whole()) {
      const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

  std::deque<Answer> answers_;
  std::vector<std::string> requests_;
  FileDescriptor listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

// Returns a whole answer with this body.
inline CannedServer::Answer canned(unsigned status, const std::string& body) {
  return {"HTTP/1.1 " + std::to_string(status) +
          " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
          "\r\nConnection: close\r\n\r\n" + body};
}

}  // namespace kvik
