// Whatever comes over a socket, in whatever pieces: a request or a refusal, and the same one
// however the bytes were cut. The first byte says how they are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/http/request_parser.h"

namespace {

using kvik::RequestParser;

struct Outcome {
  unsigned fault = 0;  // a status; 0: none
  bool is_done = false;
  std::string path, body;
  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view bytes, size_t n_piece) {
  RequestParser parser({.header_bytes = 4096, .header_fields = 32, .body_bytes = 4096});
  Outcome outcome;
  size_t n_taken = 0;
  for (size_t n_come = 0; parser.stage() != RequestParser::Stage::kDone;) {
    const size_t n_before = n_taken;
    const auto n = parser.feed(bytes.substr(n_taken, n_come - n_taken));
    if (!n) {
      outcome.fault = n.error().status;
      CHECK(outcome.fault >= 400 && outcome.fault < 500 && !n.error().message.empty());
      return outcome;
    }
    n_taken += *n;
    CHECK(n_taken <= n_come);
    if (n_taken == n_before && n_come == bytes.size()) break;
    if (n_taken == n_before) n_come = std::min(bytes.size(), n_come + n_piece);
  }
  outcome.is_done = parser.stage() == RequestParser::Stage::kDone;
  if (!outcome.is_done) return outcome;
  outcome.path = parser.request().path;
  outcome.body = parser.request().body;
  CHECK(outcome.body.size() <= 4096);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  if (n_bytes == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, n_bytes - 1);
  const Outcome whole = parse(bytes, std::max<size_t>(bytes.size(), 1));
  const Outcome cut = parse(bytes, 1 + data[0] % 64);
  // An error may be detected earlier or later; a valid request gives the same result in any pieces.
  CHECK(whole.is_done == cut.is_done);
  if (whole.is_done) CHECK(whole == cut);
  return 0;
}
