#include "host/kv_events/event_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <expected>
#include <utility>

namespace kvik {
namespace {

constexpr int kBacklog = 64;
constexpr int kSendBufferBytes = 128 << 10;

std::unexpected<Error> not_bound(const std::string& endpoint, std::string_view why) {
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "KV events cannot be published at '{}': {}; expected tcp://HOST:PORT or ipc://PATH",
          endpoint, why));
}

// Returns a listening socket, or an errno.
std::expected<FileDescriptor, int> listen_at(const sockaddr* address, socklen_t size,
                                             const std::string& path) {
  FileDescriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return std::unexpected(errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool is_bound = ::bind(socket.get(), address, size) == 0 &&
                        (path.empty() || ::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) &&
                        ::listen(socket.get(), kBacklog) == 0;
  if (!is_bound) return std::unexpected(errno);
  return socket;
}

Result<FileDescriptor> bind_tcp(const std::string& endpoint, const std::string& authority) {
  const size_t colon = authority.rfind(':');
  if (colon == std::string::npos) return not_bound(endpoint, "it has no port");
  std::string host = authority.substr(0, colon);
  const std::string port = authority.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = host == "*" ? AF_INET : AF_UNSPEC;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(host == "*" ? nullptr : host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return not_bound(endpoint, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  auto socket = listen_at(list->ai_addr, list->ai_addrlen, "");
  if (!socket) return not_bound(endpoint, std::strerror(socket.error()));
  return std::move(*socket);
}

Result<FileDescriptor> bind_ipc(const std::string& endpoint, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return not_bound(endpoint, "its path is empty or too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) ::unlink(path.c_str());
  auto socket = listen_at(reinterpret_cast<const sockaddr*>(&address), sizeof(address), path);
  if (!socket) return not_bound(endpoint, std::strerror(socket.error()));
  return std::move(*socket);
}

}  // namespace

Result<std::unique_ptr<EventSocket>> EventSocket::bind(const std::string& endpoint,
                                                       EventPeer::Kind kind,
                                                       std::string_view topic) {
  constexpr std::string_view kTcp = "tcp://", kIpc = "ipc://";
  std::string path;
  FileDescriptor socket;
  if (endpoint.starts_with(kTcp)) {
    TRY_ASSIGN(socket, bind_tcp(endpoint, endpoint.substr(kTcp.size())));
  } else if (endpoint.starts_with(kIpc)) {
    path = endpoint.substr(kIpc.size());
    TRY_ASSIGN(socket, bind_ipc(endpoint, path));
  } else {
    return not_bound(endpoint, "unknown transport");
  }
  return std::unique_ptr<EventSocket>(
      new EventSocket(std::move(socket), std::move(path), kind, topic));
}

EventSocket::~EventSocket() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void EventSocket::add_to(std::vector<pollfd>& all, const BatchRing& ring) const {
  all.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
  for (const auto& peer : peers_)
    all.push_back({.fd = peer->fd(), .events = peer->wanted_events(ring), .revents = 0});
}

void EventSocket::act(const pollfd* events, const BatchRing& ring) {
  size_t i = 0;
  std::erase_if(peers_, [&](const auto& peer) {
    const short seen = events[++i].revents;
    const bool is_of_use = (seen & (POLLERR | POLLNVAL)) == 0 &&
                           ((seen & (POLLIN | POLLHUP)) == 0 || peer->read(ring)) &&
                           peer->write(ring);
    n_lost_ += peer->take_lost();
    return !is_of_use;
  });
  if (events[0].revents != 0) accept_all();
}

void EventSocket::accept_all() {
  while (true) {
    FileDescriptor peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!peer.is_open()) return;
    if (peers_.size() >= kMaxPeers) {
      const auto idle = std::ranges::find_if(peers_, [](const auto& p) { return p->is_idle(); });
      if (idle == peers_.end()) continue;
      peers_.erase(idle);
    }
    const int on = 1;
    ::setsockopt(peer.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
    ::setsockopt(peer.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (path_.empty()) ::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    peers_.push_back(std::make_unique<EventPeer>(std::move(peer), kind_, topic_));
  }
}

void EventSocket::close_late(TimePoint now) {
  std::erase_if(peers_, [&](const auto& peer) { return !peer->is_in_time(now); });
}

void EventSocket::begin_second() {
  for (const auto& peer : peers_) peer->begin_second();
}

size_t EventSocket::n_bytes() const {
  size_t n = 0;
  for (const auto& peer : peers_) n += peer->n_bytes();
  return n;
}

bool EventSocket::is_done(const BatchRing& ring) const {
  return std::ranges::all_of(peers_, [&](const auto& peer) { return peer->is_done(ring); });
}

}  // namespace kvik
