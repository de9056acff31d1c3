#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

// ZMTP 3.0 (https://rfc.zeromq.org/spec/23), the protocol of ZeroMQ's sockets, with the mechanism
// NULL. Not by libzmq, which stores every subscription of every subscriber without a bound
// (a PUB socket's in a trie of one node a byte, XPUB_MANUAL's as well) and lets a message in that
// is as long as its sender likes.
namespace kvik::zmtp {

// The longest frame that a peer may send: metadata, a subscription or a question.
inline constexpr size_t kMaxFrameBytes = 1024;

std::string greeting();
// The command that ends the handshake and names the sender's kind of socket: "PUB", "ROUTER".
std::string ready(std::string_view socket_type);

enum class More : bool { kNo, kYes };
// The bytes before a frame's body. A frame with more is followed by another of its message.
std::string frame_head(size_t n_bytes, More more);
// A whole frame.
std::string frame(std::string_view body, More more);
// The answer to a PING command's body; empty where it is none.
std::string pong(std::string_view command);

struct Frame {
  bool has_more = false;
  bool is_command = false;
  std::string body;
};

// Bytes of a peer → its frames. Holds a greeting or one frame at most.
class Decoder {
 public:
  void feed(std::string_view bytes) { held_.append(bytes); }

  // The next frame, from the first one after the greeting on; std::nullopt: more bytes are needed.
  // Errors: kInvalidArgument for another protocol or mechanism, and a frame that is too long.
  Result<std::optional<Frame>> next();
  // Returns whether the peer's greeting has arrived.
  bool has_greeting() const { return has_greeting_; }
  size_t n_bytes() const { return held_.capacity(); }

 private:
  Result<bool> take_greeting();

  std::string held_;
  bool has_greeting_ = false;
};

// The kind of socket that a READY command names; empty where it is none.
std::string socket_type_of(std::string_view command);

}  // namespace kvik::zmtp
