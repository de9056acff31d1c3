// Data that a server sends to `kvik ps`, `run` and `launch`: events of an answer, lists and
// metrics.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "cli/remote/answer_events.h"
#include "cli/remote/http_client.h"
#include "cli/remote/served_models.h"

namespace {

class Discard final : public kvik::CompletionSink {
 public:
  void on_chunk(kvik::CompletionChunk) override {}
  void on_done(const kvik::Usage&) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvik;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Discard sink;
  AnswerEvents events{TimePoint()};
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    static_cast<void>(events.read(rest.substr(0, end), TimePoint(), sink));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  static_cast<void>(read_models(text));
  static_cast<void>(error_of({.status = 500, .body = std::string(text)}));
  static_cast<void>(MetricsText(std::string(text)).sum("kvik_kv_bytes", {"state=\"cached\""}));
  if (const auto url = ServerUrl::parse(text)) {
    const auto again = ServerUrl::parse(url->text());
    CHECK(again.has_value() && again->text() == url->text());
  }
  return 0;
}
