#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace kvik {

// Bytes from and to one client, plain or encrypted.
//
// Network thread only. One coroutine reads while another one writes.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Performs the handshake. Returns false if it is not completed in time.
  virtual boost::asio::awaitable<bool> open(std::chrono::milliseconds at_most) = 0;

  // Waits for the next bytes, which are valid until the next call; empty at the end.
  virtual boost::asio::awaitable<std::string_view> read_some() = 0;

  // Returns false if not all of it was sent.
  virtual boost::asio::awaitable<bool> write(std::string_view bytes) = 0;

  // Closes the sending side; the client may still send.
  virtual void end_sending() = 0;

  // Closes the connection, which ends pending operations.
  virtual void close() = 0;
  virtual bool is_open() const = 0;
  // Memory of an idle connection: measured, rounded up.
  virtual size_t idle_bytes() const = 0;
  virtual boost::asio::any_io_executor executor() = 0;
};

}  // namespace kvik
