#include "tier/redis_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <span>
#include <utility>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/process/host_lookup.h"

namespace kvik {
namespace {

constexpr size_t kReadAtOnce = 256 * 1024;
constexpr size_t kMaxHead = 256;    // of a reply, before its contents
constexpr int kMaxElements = 4096;  // maximum array length that is accepted

TimePoint in(Duration timeout) { return std::chrono::steady_clock::now() + timeout; }

std::unexpected<Error> failed(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", name, what));
}

// Waits until the socket is ready; returns false at the deadline.
bool wait_for(int fd, short events, TimePoint deadline) {
  pollfd what{.fd = fd, .events = events, .revents = 0};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const int n = ::poll(&what, 1, static_cast<int>(left.count()));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Connects, blocking at most until the deadline; returns an errno on failure.
std::expected<FileDescriptor, int> connect_to(const sockaddr* address, socklen_t size,
                                              TimePoint deadline) {
  FileDescriptor fd(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return std::unexpected(errno);
  if (::connect(fd.get(), address, size) != 0) {
    if (errno != EINPROGRESS && errno != EAGAIN) return std::unexpected(errno);
    if (!wait_for(fd.get(), POLLOUT, deadline)) return std::unexpected(ETIMEDOUT);
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return std::unexpected(error);
  }
  const int on = 1;
  if (address->sa_family != AF_UNIX) {
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fd;
}

std::expected<FileDescriptor, int> connect_unix(const std::string& path, TimePoint deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return std::unexpected(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  return connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof(address), deadline);
}

// Bounds arrays of replies: an announced array takes no memory before its elements arrive.
void* create_bounded_array(const redisReadTask* task, int n);

redisReplyObjectFunctions& reply_functions() {
  static redisReplyObjectFunctions functions = [] {
    redisReader* reader = redisReaderCreate();
    redisReplyObjectFunctions known = *reader->fn;
    redisReaderFree(reader);
    known.createArray = create_bounded_array;
    return known;
  }();
  return functions;
}

void* create_bounded_array(const redisReadTask* task, int n) {
  if (n > kMaxElements) return nullptr;
  static void* (*const create)(const redisReadTask*, int) = [] {
    redisReader* reader = redisReaderCreate();
    const auto known = reader->fn->createArray;
    redisReaderFree(reader);
    return known;
  }();
  return create(task, n);
}

}  // namespace

void FreeRedisReply::operator()(redisReply* reply) const { freeReplyObject(reply); }
void RedisConnection::FreeReader::operator()(redisReader* reader) const { redisReaderFree(reader); }

// Transfers bytes. Both calls move what can be moved now, and wait for at least one byte.
class RedisConnection::Channel {
 public:
  virtual ~Channel() = default;
  virtual Result<size_t> write(std::string_view bytes, TimePoint deadline) = 0;
  virtual Result<size_t> read(std::span<char> bytes, TimePoint deadline) = 0;
};

class RedisConnection::PlainChannel final : public Channel {
 public:
  explicit PlainChannel(FileDescriptor fd) : fd_(std::move(fd)) {}

  Result<size_t> write(std::string_view bytes, TimePoint deadline) override {
    return move(POLLOUT, deadline,
                [&] { return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
  }
  Result<size_t> read(std::span<char> bytes, TimePoint deadline) override {
    TRY_ASSIGN(const size_t n, move(POLLIN, deadline, [&] {
                 return ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
               }));
    if (n == 0) return fail(ErrorCode::kIo, "it closed the connection");
    return n;
  }

 private:
  template <class Call>
  Result<size_t> move(short events, TimePoint deadline, const Call& call) {
    while (true) {
      const ssize_t n = call();
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return fail(ErrorCode::kIo, std::strerror(errno));
      if (!wait_for(fd_.get(), events, deadline))
        return fail(ErrorCode::kIo, "it did not answer in time");
    }
  }
  FileDescriptor fd_;
};

class RedisConnection::TlsChannel final : public Channel {
 public:
  static Result<std::unique_ptr<Channel>> open(FileDescriptor fd, const std::string& host,
                                               TimePoint deadline) {
    Context context(SSL_CTX_new(TLS_client_method()));
    if (!context) return fail(ErrorCode::kIo, "not enough memory for TLS");
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_default_verify_paths(context.get());
    Session session(SSL_new(context.get()));
    if (!session) return fail(ErrorCode::kIo, "not enough memory for TLS");
    SSL_set_tlsext_host_name(session.get(), host.c_str());
    SSL_set1_host(session.get(), host.c_str());
    SSL_set_fd(session.get(), fd.get());
    auto channel =
        std::make_unique<TlsChannel>(std::move(fd), std::move(context), std::move(session));
    TRY(channel->move(deadline, [&] { return SSL_connect(channel->session_.get()); }));
    return channel;
  }

  Result<size_t> write(std::string_view bytes, TimePoint deadline) override {
    return move(deadline, [&] {
      return SSL_write(session_.get(), bytes.data(),
                       static_cast<int>(std::min<size_t>(bytes.size(), 1 << 20)));
    });
  }
  Result<size_t> read(std::span<char> bytes, TimePoint deadline) override {
    return move(deadline, [&] {
      return SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
    });
  }

  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  using Context = std::unique_ptr<SSL_CTX, FreeContext>;
  using Session = std::unique_ptr<SSL, FreeSession>;
  TlsChannel(FileDescriptor fd, Context context, Session session)
      : fd_(std::move(fd)), context_(std::move(context)), session_(std::move(session)) {}

 private:
  template <class Call>
  Result<size_t> move(TimePoint deadline, const Call& call) {
    while (true) {
      ERR_clear_error();
      const int n = call();
      if (n > 0) return static_cast<size_t>(n);
      const int error = SSL_get_error(session_.get(), n);
      const bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
      if (!waits) return fail(ErrorCode::kIo, trouble());
      const short events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      if (!wait_for(fd_.get(), events, deadline))
        return fail(ErrorCode::kIo, "it did not answer in time");
    }
  }
  std::string trouble() const {
    if (const long verified = SSL_get_verify_result(session_.get()); verified != X509_V_OK) {
      return fmt::format("its certificate: {}", X509_verify_cert_error_string(verified));
    }
    const unsigned long error = ERR_get_error();
    return error == 0 ? "it closed the connection" : ERR_reason_error_string(error);
  }

  FileDescriptor fd_;
  Context context_;
  Session session_;
};

Result<std::unique_ptr<RedisConnection::Channel>> RedisConnection::connect(
    const RedisAddress& address, TimePoint deadline) {
  if (address.transport == RedisAddress::Transport::kUnix) {
    auto fd = connect_unix(address.host, deadline);
    if (!fd) return fail(ErrorCode::kIo, std::strerror(fd.error()));
    return std::make_unique<PlainChannel>(std::move(*fd));
  }
  TRY_ASSIGN(const auto found, look_up_host(address.host, address.port, deadline));
  int error = EHOSTUNREACH;
  for (const HostAddress& one : found) {
    auto fd = connect_to(one.get(), one.n_bytes, deadline);
    if (!fd) {
      error = fd.error();
      continue;
    }
    if (address.transport == RedisAddress::Transport::kTls) {
      return TlsChannel::open(std::move(*fd), address.host, deadline);
    }
    return std::make_unique<PlainChannel>(std::move(*fd));
  }
  return fail(ErrorCode::kIo, std::strerror(error));
}

RedisConnection::RedisConnection(std::unique_ptr<Channel> channel, std::string name)
    : channel_(std::move(channel)),
      name_(std::move(name)),
      reader_(redisReaderCreateWithFunctions(&reply_functions())) {}

RedisConnection::~RedisConnection() = default;

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const RedisAddress& address,
                                                               Duration timeout) {
  const std::string name = address.printable();
  auto channel = connect(address, in(timeout));
  if (!channel) return failed(name, channel.error().message);
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(*channel), name));
  TRY(connection->authenticate(address, timeout));
  return connection;
}

Result<void> RedisConnection::authenticate(const RedisAddress& address, Duration timeout) {
  size_t n = 1;
  if (!address.password.empty()) {
    ++n;
    if (address.user.empty()) {
      add({"AUTH", address.password});
    } else {
      add({"AUTH", address.user, address.password});
    }
  }
  add({"SELECT", std::to_string(address.database)});
  TRY(send(timeout));
  for (; n > 0; --n) {
    TRY_ASSIGN(const RedisReply reply, receive(kMaxShortReply, timeout));
    if (reply->type == REDIS_REPLY_ERROR)
      return failed(name_, std::string_view(reply->str, reply->len));
  }
  return {};
}

void RedisConnection::add(std::initializer_list<std::string_view> words) {
  std::vector<const char*> texts;
  std::vector<size_t> lengths;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* command = nullptr;
  const int n = redisFormatCommandArgv(&command, static_cast<int>(texts.size()), texts.data(),
                                       lengths.data());
  if (n > 0) waiting_.append(command, static_cast<size_t>(n));
  redisFreeCommand(command);
}

Result<void> RedisConnection::send(Duration timeout) {
  const TimePoint deadline = in(timeout);
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const auto n = channel_->write(rest, deadline);
    if (!n) return failed(name_, n.error().message);
    rest.remove_prefix(*n);
  }
  waiting_.clear();
  return {};
}

Result<RedisReply> RedisConnection::receive(size_t max_bytes, Duration timeout) {
  const TimePoint deadline = in(timeout);
  std::vector<char> bytes(std::min(kReadAtOnce, max_bytes + kMaxHead));
  while (true) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
      return failed(name_, reader_->errstr);
    if (reply != nullptr) return RedisReply(static_cast<redisReply*>(reply));
    if (reader_->len - reader_->pos > max_bytes + kMaxHead) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("{}: the reply is longer than the expected {} bytes", name_, max_bytes));
    }
    const auto n = channel_->read(bytes, deadline);
    if (!n) return failed(name_, n.error().message);
    redisReaderFeed(reader_.get(), bytes.data(), *n);
  }
}

Result<RedisReply> RedisConnection::ask(std::initializer_list<std::string_view> words,
                                        size_t max_bytes, Duration timeout) {
  add(words);
  TRY(send(timeout));
  return receive(max_bytes, timeout);
}

}  // namespace kvik
