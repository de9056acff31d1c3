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

// What all encrypted connections share: TLS 1.2 and 1.3 with this certificate and its key.
// Errors: kInvalidArgument where a file cannot be read, is none of its kind, or the two do not
// belong together.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// A TCP socket that speaks TLS; this end is the server. OpenSSL reads and writes the socket itself:
// Asio's stream has four buffers of 17 KiB between the two, for as long as the connection lives.
class TlsStream final : public ByteStream {
 public:
  // What a connection holds until it is open, and then while it says nothing.
  static constexpr size_t kOpeningBytes = size_t{56} << 10;
  static constexpr size_t kIdleBytes = size_t{24} << 10;

  // The context is borrowed. The ledger is for a record that has come in part.
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

  // Waits for what the last call to OpenSSL lacked. False: no wait helps.
  boost::asio::awaitable<bool> wait_after(int result);

  const std::shared_ptr<Session> session_;  // shared with the farewell, which may outlive this
};

}  // namespace kvik
