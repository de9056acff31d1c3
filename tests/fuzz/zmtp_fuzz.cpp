// Whatever a reader of KV events sends, in whatever pieces: the same frames however the bytes were
// cut, and answers that are frames of the protocol. The first byte says which socket hears them,
// the second how they are cut; the seeds are what sockets of libzmq send.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "host/kv_events/event_peer.h"
#include "host/kv_events/zmtp.h"

namespace kvik {
namespace {

struct Decoded {
  std::vector<std::string> frames;
  bool is_refused = false;
  bool operator==(const Decoded&) const = default;
};

Decoded decode(std::string_view bytes, size_t n_piece) {
  zmtp::Decoder decoder;
  Decoded decoded;
  for (size_t at = 0; at < bytes.size() && !decoded.is_refused; at += n_piece) {
    decoder.feed(bytes.substr(at, n_piece));
    while (true) {
      const auto frame = decoder.next();
      decoded.is_refused = !frame;
      if (!frame || !*frame) break;
      CHECK((*frame)->body.size() <= zmtp::kMaxFrameBytes);
      CHECK(zmtp::socket_type_of((*frame)->body).size() <= (*frame)->body.size());
      CHECK(zmtp::pong((*frame)->body).size() <= 2 + zmtp::kMaxFrameBytes);
      decoded.frames.push_back((*frame)->body);
    }
  }
  return decoded;
}

BatchRing three_batches() {
  BatchRing ring(8, 4096);
  for (const size_t n : {1, 255, 300}) ring.add(std::string(n, 'b'));
  return ring;
}

std::string received(int fd) {
  std::string all;
  std::array<char, 4096> bytes;
  for (ssize_t n = 0; (n = ::recv(fd, bytes.data(), bytes.size(), 0)) > 0;) {
    all.append(bytes.data(), static_cast<size_t>(n));
  }
  return all;
}

// Returns the answer of a peer that receives these bytes.
std::string answer_to(std::string_view bytes, EventPeer::Kind kind, size_t n_piece) {
  std::array<int, 2> ends{};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  BatchRing ring = three_batches();
  std::string answer;
  {
    EventPeer peer(FileDescriptor(ends[0]), kind, "kv");
    const auto turn = [&] {
      const bool wants_in = (peer.wanted_events(ring) & POLLIN) != 0;
      const bool goes_on = (!wants_in || peer.read(ring)) && peer.write(ring);
      answer += received(ends[1]);
      return goes_on;
    };
    bool goes_on = true;
    for (size_t at = 0; at < bytes.size() && goes_on; at += n_piece) {
      const std::string_view piece = bytes.substr(at, n_piece);
      CHECK(::send(ends[1], piece.data(), piece.size(), MSG_NOSIGNAL) >= 0);
      goes_on = turn();
    }
    ring.add("one more");
    constexpr int kMaxTurns = 100;
    for (int i = 0; i < kMaxTurns && goes_on; ++i) goes_on = turn();
  }
  ::close(ends[1]);
  return answer;
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  constexpr size_t kMaxBytes = 4096;
  if (n_bytes < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2,
                               std::min(n_bytes, kMaxBytes) - 2);
  const size_t n_piece = 1 + data[1];
  CHECK(decode(bytes, std::max<size_t>(bytes.size(), 1)) == decode(bytes, n_piece));
  const auto kind =
      data[0] % 2 == 0 ? EventPeer::Kind::kSubscriber : EventPeer::Kind::kReplayClient;
  const std::string answer = answer_to(bytes, kind, n_piece);
  CHECK(answer.size() <= 4096 + 256 * bytes.size());
  CHECK(!decode(answer, std::max<size_t>(answer.size(), 1)).is_refused);
  return 0;
}
