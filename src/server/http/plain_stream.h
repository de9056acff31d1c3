#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string_view>
#include <utility>

#include "server/http/byte_stream.h"

namespace kvik {

// A plain TCP socket.
class PlainStream final : public ByteStream {
 public:
  static constexpr size_t kIdleBytes = size_t{6} << 10;

  explicit PlainStream(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  boost::asio::awaitable<bool> open(std::chrono::milliseconds at_most) override;
  boost::asio::awaitable<std::string_view> read_some() override;
  boost::asio::awaitable<bool> write(std::string_view bytes) override;
  void end_sending() override;
  void close() override;
  bool is_open() const override { return socket_.is_open(); }
  size_t idle_bytes() const override { return kIdleBytes; }
  boost::asio::any_io_executor executor() override { return socket_.get_executor(); }

 private:
  boost::asio::ip::tcp::socket socket_;
};

}  // namespace kvik
