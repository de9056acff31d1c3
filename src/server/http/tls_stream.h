#pragma once

#include <openssl/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "server/http/byte_ledger.h"
#include "server/http/byte_stream.h"
#include "server/server_options.h"

namespace kvik {

// Returns the context of all encrypted connections: TLS 1.2 and 1.3 with this certificate and key.
// Errors: kInvalidArgument if a file cannot be read or has the wrong kind, or the two do not match.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// A TLS server connection over TCP. OpenSSL reads and writes the socket directly: Asio's stream has
// four buffers of 17 KiB in between for the lifetime of the connection.
class TlsStream final : public ByteStream {
 public:
  // Memory of a connection during the handshake, and when it is idle.
  static constexpr size_t kOpeningBytes = size_t{56} << 10;
  static constexpr size_t kIdleBytes = size_t{24} << 10;

  // Borrows the context. The ledger counts partially received records.
  TlsStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& context,
            ByteLedger& ledger);
  ~TlsStream() override;

  boost::asio::awaitable<bool> open(std::chrono::milliseconds at_most) override;
  boost::asio::awaitable<std::string_view> read_some() override;
  boost::asio::awaitable<bool> write(std::string_view bytes) override;
  void end_sending() override;
  void close() override;
  bool is_open() const override;
  size_t idle_bytes() const override { return kIdleBytes; }
  boost::asio::any_io_executor executor() override;

 private:
  struct Session;

  // Waits for what OpenSSL's last call needs. Returns false if waiting does not help.
  boost::asio::awaitable<bool> wait_after(int result);

  const std::shared_ptr<Session> session_;  // shared with the shutdown, which may outlive this
};

}  // namespace kvik
