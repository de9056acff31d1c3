#include "main/kv_event_options.h"

#include <fmt/format.h>

namespace kvik {

void KvEventFlags::add_to(Flags& flags) {
  flags.add({
      Flag("--kv-events", &options.endpoint,
           "publish what the cache holds for routers, as vLLM does: tcp://HOST:PORT or ipc://PATH; "
           "who listens reads all prompts (default: off)")
          .called("ENDPOINT"),
      Flag("--kv-events-replay", &options.replay_endpoint,
           "endpoint where a subscriber that missed events asks for them again (default: off)")
          .called("ENDPOINT"),
      {"--kv-events-topic", &options.topic, "the first frame of each message (default: empty)"},
      {"--kv-events-encoding", &encoding, "array, or map (default: array)"},
  });
}

Result<std::unique_ptr<KvEventPublisher>> KvEventFlags::start() const {
  if (options.endpoint.empty()) return std::unique_ptr<KvEventPublisher>();
  const auto known = kv_event_encoding_named(encoding);
  if (!known) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--kv-events-encoding {}: expected array or map", encoding));
  }
  KvEventOptions all = options;
  all.encoding = *known;
  return KvEventPublisher::start(all);
}

}  // namespace kvik
