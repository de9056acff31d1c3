#include "server/http/tls_stream.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "server/http/await.h"
#include "server/http/read_buffer.h"

namespace kvik {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;

namespace {

// Size of a written record, which is buffered while a slow reader does not accept it.
constexpr size_t kSentRecordBytes = size_t{4} << 10;
// Size of the buffer of a record being read.
constexpr size_t kReadRecordBytes = size_t{17} << 10;

std::unexpected<Error> refuse(std::string_view what, const std::string& path,
                              const boost::system::error_code& error) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} '{}' cannot be used: {}", what, path, error.message()));
}

}  // namespace

// The socket and OpenSSL's state.
struct TlsStream::Session : std::enable_shared_from_this<TlsStream::Session> {
  Session(tcp::socket connected, ssl::context& context, ByteLedger& ledger)
      : socket(std::move(connected)),
        tls(SSL_new(context.native_handle()), SSL_free),
        read_share(ledger) {
    BIO* const bio = tls && method() ? BIO_new(method()) : nullptr;
    if (!bio) return;
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls.get(), bio, bio);
    is_ready = true;
  }

  static const BIO_METHOD* method();  // null if there is no memory
  static int send(BIO* bio, const char* bytes, int n);
  static int receive(BIO* bio, char* bytes, int n);
  void send_close_notify();

  tcp::socket socket;
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls;
  ByteShare read_share;
  bool is_ready = false;     // false: there was no memory, and open() fails
  bool holds_input = false;  // a record is partially received
};

// OpenSSL's own socket BIO would raise SIGPIPE, and identify a closed socket by a descriptor that
// may belong to another connection by then.
const BIO_METHOD* TlsStream::Session::method() {
  using Method = std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)>;
  static const Method method = [] {
    Method made(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"), BIO_meth_free);
    if (!made) return made;
    BIO_meth_set_write(made.get(), send);
    BIO_meth_set_read(made.get(), receive);
    BIO_meth_set_ctrl(made.get(), [](BIO*, int command, long, void*) -> long {
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return method.get();
}

int TlsStream::Session::send(BIO* bio, const char* bytes, int n) {
  auto* const session = static_cast<Session*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const auto n_sent = ::send(session->socket.native_handle(), bytes, static_cast<size_t>(n),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n_sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n_sent);
}

int TlsStream::Session::receive(BIO* bio, char* bytes, int n) {
  auto* const session = static_cast<Session*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const auto n_received =
      ::recv(session->socket.native_handle(), bytes, static_cast<size_t>(n), MSG_DONTWAIT);
  if (n_received < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (n_received > 0) session->holds_input = true;
  return static_cast<int>(n_received);
}

// The client's close_notify is read by the regular reader.
void TlsStream::Session::send_close_notify() {
  ERR_clear_error();
  const int result = SSL_shutdown(tls.get());
  if (result >= 0 || SSL_get_error(tls.get(), result) != SSL_ERROR_WANT_WRITE) return;
  socket.async_wait(tcp::socket::wait_write,
                    [self = shared_from_this()](boost::system::error_code error) {
                      if (!error) self->send_close_notify();
                    });
}

Result<ssl::context> make_tls_context(const TlsFiles& files) {
  ssl::context context(ssl::context::tls_server);
  SSL_CTX* const raw = context.native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);  // an idle connection keeps no buffers
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_max_send_fragment(raw, kSentRecordBytes);
  // Clients keep their tickets; sessions kept here would be uncounted memory.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  boost::system::error_code error;
  // OpenSSL would prompt on the terminal; an empty password fails for an encrypted key.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  context.use_certificate_chain_file(files.certificate, error);
  if (error) return refuse("the TLS certificate", files.certificate, error);
  // Also rejects a key that does not match the certificate.
  context.use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return refuse("the TLS key", files.key, error);
  return context;
}

TlsStream::TlsStream(tcp::socket socket, ssl::context& context, ByteLedger& ledger)
    : session_(std::make_shared<Session>(std::move(socket), context, ledger)) {}

TlsStream::~TlsStream() = default;

asio::awaitable<bool> TlsStream::wait_after(int result) {
  const int wanted = SSL_get_error(session_->tls.get(), result);
  if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) co_return false;
  const auto kind =
      wanted == SSL_ERROR_WANT_READ ? tcp::socket::wait_read : tcp::socket::wait_write;
  const auto [failure] = co_await session_->socket.async_wait(kind, kAwait);
  co_return !failure;
}

asio::awaitable<bool> TlsStream::open(std::chrono::milliseconds at_most) {
  asio::steady_timer timer(executor(), at_most);
  timer.async_wait([session = session_](boost::system::error_code stopped) {
    boost::system::error_code ignored;
    if (!stopped) session->socket.close(ignored);
  });
  while (session_->is_ready) {
    ERR_clear_error();
    const int result = SSL_accept(session_->tls.get());
    session_->holds_input = SSL_has_pending(session_->tls.get()) == 1;
    if (result == 1) co_return true;
    if (!co_await wait_after(result)) break;
  }
  log::debug("no TLS connection: {}", ERR_error_string(ERR_peek_error(), nullptr));
  co_return false;
}

asio::awaitable<std::string_view> TlsStream::read_some() {
  for (;;) {
    ReadBuffer& buffer = read_buffer();
    ERR_clear_error();
    const int n = SSL_read(session_->tls.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (n > 0) {
      session_->holds_input = SSL_has_pending(session_->tls.get()) == 1;
      co_return std::string_view(buffer.data(), static_cast<size_t>(n));
    }
    // A client that withholds the rest of a record keeps its buffer allocated.
    const size_t held = session_->holds_input ? kReadRecordBytes : 0;
    if (!session_->read_share.resize(held) || !co_await wait_after(n)) co_return "";
  }
}

asio::awaitable<bool> TlsStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ERR_clear_error();
    size_t n = 0;
    const int result = SSL_write_ex(session_->tls.get(), bytes.data(), bytes.size(), &n);
    if (result == 1) {
      bytes.remove_prefix(n);
    } else if (!co_await wait_after(result)) {
      co_return false;
    }
  }
  co_return true;
}

void TlsStream::end_sending() { session_->send_close_notify(); }

void TlsStream::close() {
  boost::system::error_code ignored;
  session_->socket.close(ignored);
}

bool TlsStream::is_open() const { return session_->socket.is_open(); }
asio::any_io_executor TlsStream::executor() { return session_->socket.get_executor(); }

}  // namespace kvik
