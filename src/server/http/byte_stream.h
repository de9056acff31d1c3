#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace kvik {

// Bytes from and to one client, as they travel: plain or encrypted.
//
// Network thread only. One coroutine reads while another one writes.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // What comes before the first byte. False where the client does not get through it in time.
  virtual boost::asio::awaitable<bool> open(std::chrono::milliseconds at_most) = 0;

  // Waits for the next bytes, which stay until the coroutine waits again; empty at the end.
  virtual boost::asio::awaitable<std::string_view> read_some() = 0;

  // False where not all of it went out.
  virtual boost::asio::awaitable<bool> write(std::string_view bytes) = 0;

  // Tells the client that nothing more will come; it may still be sending.
  virtual void end_sending() = 0;

  // Ends whatever waits here.
  virtual void close() = 0;
  virtual bool is_open() const = 0;
  // What a connection over it holds while it says nothing: measured, rounded up.
  virtual size_t idle_bytes() const = 0;
  virtual boost::asio::any_io_executor executor() = 0;
};

}  // namespace kvik
