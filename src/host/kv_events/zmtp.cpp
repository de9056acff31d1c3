#include "host/kv_events/zmtp.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kvik::zmtp {
namespace {

constexpr size_t kGreetingBytes = 64;
constexpr size_t kVersionAt = 10;
constexpr size_t kMechanismAt = 12;
constexpr size_t kMechanismBytes = 20;
constexpr uint8_t kMore = 1, kLong = 2, kCommand = 4;
constexpr std::string_view kTypeName = "Socket-Type";

// Appends a number in network byte order.
void append_number(std::string& out, uint64_t number, size_t n_bytes) {
  for (size_t i = n_bytes; i > 0; --i) out.push_back(static_cast<char>(number >> (8 * (i - 1))));
}

uint64_t number_in(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

// Reads a word preceded by its length in one byte, as commands and properties begin; empty if it is
// incomplete.
std::string_view short_word(std::string_view& rest) {
  if (rest.empty()) return {};
  const size_t n = static_cast<unsigned char>(rest[0]);
  if (rest.size() < 1 + n) return rest = {};
  const std::string_view word = rest.substr(1, n);
  rest.remove_prefix(1 + n);
  return word;
}

std::unexpected<Error> refused(const char* why) { return fail(ErrorCode::kInvalidArgument, why); }

}  // namespace

std::string greeting() {
  std::string bytes(kGreetingBytes, '\0');
  bytes[0] = '\xff';
  bytes[9] = '\x7f';
  bytes[kVersionAt] = 3;
  std::ranges::copy(std::string_view("NULL"), bytes.begin() + kMechanismAt);
  return bytes;
}

std::string ready(std::string_view socket_type) {
  std::string body("\x05READY");
  body.push_back(static_cast<char>(kTypeName.size()));
  body += kTypeName;
  append_number(body, socket_type.size(), 4);
  body += socket_type;
  std::string out{static_cast<char>(kCommand), static_cast<char>(body.size())};
  return out + body;
}

std::string frame_head(size_t n_bytes, More more) {
  const bool is_long = n_bytes > UINT8_MAX;
  std::string head{static_cast<char>((more == More::kYes ? kMore : 0) | (is_long ? kLong : 0))};
  append_number(head, n_bytes, is_long ? 8 : 1);
  return head;
}

std::string frame(std::string_view body, More more) {
  return frame_head(body.size(), more).append(body);
}

std::string pong(std::string_view command) {
  constexpr size_t kTtlBytes = 2, kMaxContext = 16;
  if (short_word(command) != "PING" || command.size() < kTtlBytes) return {};
  const std::string_view context = command.substr(kTtlBytes).substr(0, kMaxContext);
  const std::string body = std::string("\x04PONG").append(context);
  return std::string{static_cast<char>(kCommand), static_cast<char>(body.size())} + body;
}

Result<bool> Decoder::take_greeting() {
  const auto differs = [&](size_t at, std::string_view from) {
    return held_.size() > at && !held_.substr(at).starts_with(from.substr(0, held_.size() - at));
  };
  if (differs(0, "\xff") || differs(9, "\x7f")) return refused("no greeting of ZMTP");
  if (held_.size() > kVersionAt && held_[kVersionAt] < 3) return refused("a version below 3");
  if (held_.size() < kGreetingBytes) return false;
  std::string mechanism("NULL");
  mechanism.resize(kMechanismBytes);
  if (differs(kMechanismAt, mechanism)) return refused("a mechanism that is not NULL");
  held_.erase(0, kGreetingBytes);
  has_greeting_ = true;
  return true;
}

Result<std::optional<Frame>> Decoder::next() {
  if (!has_greeting_) {
    TRY_ASSIGN(const bool is_whole, take_greeting());
    if (!is_whole) return std::nullopt;
  }
  if (held_.size() < 2) return std::nullopt;
  const auto flags = static_cast<uint8_t>(held_[0]);
  const size_t n_length = (flags & kLong) != 0 ? 8 : 1;
  if (held_.size() < 1 + n_length) return std::nullopt;
  const uint64_t n_bytes = number_in(std::string_view(held_).substr(1, n_length));
  if (n_bytes > kMaxFrameBytes) return refused("a frame that is too long");
  if (held_.size() < 1 + n_length + n_bytes) return std::nullopt;
  Frame frame{.has_more = (flags & kMore) != 0,
              .is_command = (flags & kCommand) != 0,
              .body = held_.substr(1 + n_length, n_bytes)};
  held_.erase(0, 1 + n_length + n_bytes);
  return frame;
}

std::string socket_type_of(std::string_view command) {
  if (short_word(command) != "READY") return {};
  while (!command.empty()) {
    const std::string_view name = short_word(command);
    if (command.size() < 4) return {};
    const uint64_t n_bytes = number_in(command.substr(0, 4));
    command.remove_prefix(4);
    if (n_bytes > command.size()) return {};
    const std::string_view value = command.substr(0, n_bytes);
    command.remove_prefix(n_bytes);
    if (name == kTypeName) return std::string(value);
  }
  return {};
}

}  // namespace kvik::zmtp
