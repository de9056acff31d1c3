#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

// ZMTP 3.0 (https://rfc.zeromq.org/spec/23), the protocol of ZeroMQ, with the NULL mechanism.
// libzmq is not used because it stores every subscription of every subscriber without a bound (in a
// trie of one node per byte; XPUB_MANUAL too) and accepts messages of any length.
namespace kvik::zmtp {

// Maximum length of a frame from a peer: metadata, a subscription or a request.
inline constexpr size_t kMaxFrameBytes = 1024;

// Returns the greeting that begins a connection.
std::string greeting();
// Returns the command that ends the handshake and names our socket type: "PUB", "ROUTER".
std::string ready(std::string_view socket_type);

enum class More : bool { kNo, kYes };
// Returns the bytes before the body of a frame. More::kYes means that another frame of the same
// message follows.
std::string frame_head(size_t n_bytes, More more);
// Returns a whole frame.
std::string frame(std::string_view body, More more);
// Returns the answer to the body of a PING command; empty if it is not one.
std::string pong(std::string_view command);

struct Frame {
  bool has_more = false;
  bool is_command = false;
  std::string body;
};

// Decodes the frames of a peer. Holds at most a greeting or one frame.
class Decoder {
 public:
  void feed(std::string_view bytes) { held_.append(bytes); }

  // Returns the next frame after the greeting; std::nullopt if more bytes are needed. Errors:
  // kInvalidArgument for another protocol or mechanism, or a frame that is too long.
  Result<std::optional<Frame>> next();
  // Returns whether the peer's greeting has arrived.
  bool has_greeting() const { return has_greeting_; }
  size_t n_bytes() const { return held_.capacity(); }

 private:
  Result<bool> take_greeting();

  std::string held_;
  bool has_greeting_ = false;
};

// Returns the socket type that a READY command names; empty if there is none.
std::string socket_type_of(std::string_view command);

}  // namespace kvik::zmtp
