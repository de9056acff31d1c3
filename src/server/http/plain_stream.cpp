#include "server/http/plain_stream.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "server/http/await.h"
#include "server/http/read_buffer.h"

namespace kvik {

namespace asio = boost::asio;
using asio::ip::tcp;

asio::awaitable<bool> PlainStream::open(std::chrono::milliseconds) {
  boost::system::error_code error;
  socket_.non_blocking(true, error);
  co_return !error;
}

asio::awaitable<std::string_view> PlainStream::read_some() {
  for (;;) {
    const auto [failure] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
    if (failure) co_return "";
    boost::system::error_code error;
    ReadBuffer& buffer = read_buffer();
    const size_t n = socket_.read_some(asio::buffer(buffer), error);
    if (!error) co_return std::string_view(buffer.data(), n);
    if (error != asio::error::would_block) co_return "";
  }
}

asio::awaitable<bool> PlainStream::write(std::string_view bytes) {
  const auto [error, n] =
      co_await asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), kAwait);
  co_return !error;
}

void PlainStream::end_sending() {
  boost::system::error_code ignored;  // the peer may have closed first
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void PlainStream::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace kvik
