#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "server/http/byte_stream.h"
#include "server/server_options.h"

namespace kvik {

// What all encrypted connections share: TLS 1.2 and 1.3 with this certificate and its key.
// Errors: kInvalidArgument where a file cannot be read, is none of its kind, or the two do not
// belong together.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// A TCP socket that speaks TLS; this end is the server.
class TlsStream final : public ByteStream {
 public:
  // The context is borrowed.
  TlsStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& context);

  boost::asio::awaitable<bool> open(std::chrono::milliseconds at_most) override;
  boost::asio::awaitable<std::string_view> read_some() override;
  boost::asio::awaitable<bool> write(std::string_view bytes) override;
  void end_sending() override;
  void close() override;
  bool is_open() const override { return stream_->lowest_layer().is_open(); }
  boost::asio::any_io_executor executor() override { return stream_->get_executor(); }

 private:
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

  const std::shared_ptr<Stream> stream_;  // shared with the farewell, which may outlive this
  std::array<char, size_t{4} << 10> input_{};
};

}  // namespace kvik
