#include "server/http/tls_stream.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/log.h"
#include "server/http/await.h"

namespace kvik {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

namespace {

std::unexpected<Error> refuse(std::string_view what, const std::string& path,
                              const boost::system::error_code& error) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} '{}' cannot be used: {}", what, path, error.message()));
}

}  // namespace

Result<ssl::context> make_tls_context(const TlsFiles& files) {
  ssl::context context(ssl::context::tls_server);
  SSL_CTX* const raw = context.native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);  // an idle connection keeps none
  boost::system::error_code error;
  // OpenSSL would ask at the terminal; an empty password fails for a key that has one.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  context.use_certificate_chain_file(files.certificate, error);
  if (error) return refuse("the TLS certificate", files.certificate, error);
  // Also refuses one that does not belong to the certificate.
  context.use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return refuse("the TLS key", files.key, error);
  return context;
}

TlsStream::TlsStream(asio::ip::tcp::socket socket, ssl::context& context)
    : stream_(std::make_shared<Stream>(std::move(socket), context)) {}

asio::awaitable<bool> TlsStream::open(std::chrono::milliseconds at_most) {
  asio::steady_timer timer(stream_->get_executor(), at_most);
  timer.async_wait([stream = stream_](boost::system::error_code stopped) {
    boost::system::error_code ignored;
    if (!stopped) stream->lowest_layer().close(ignored);
  });
  const auto [error] = co_await stream_->async_handshake(ssl::stream_base::server, kAwait);
  if (error) log::debug("no TLS connection: {}", error.message());
  co_return !error;
}

asio::awaitable<std::string_view> TlsStream::read_some() {
  const auto [error, n] = co_await stream_->async_read_some(asio::buffer(input_), kAwait);
  if (error) co_return "";
  co_return std::string_view(input_.data(), n);
}

asio::awaitable<bool> TlsStream::write(std::string_view bytes) {
  const auto [error, n] =
      co_await asio::async_write(*stream_, asio::buffer(bytes.data(), bytes.size()), kAwait);
  co_return !error;
}

// The client's own farewell is read by whoever reads, or never comes: closing ends the wait.
void TlsStream::end_sending() {
  stream_->async_shutdown([stream = stream_](boost::system::error_code) {});
}

void TlsStream::close() {
  boost::system::error_code ignored;
  stream_->lowest_layer().close(ignored);
}

}  // namespace kvik
