#include "main/serve/kv_event_options.h"

#include <fmt/format.h>

namespace kvik {

void KvEventFlags::add_to(Flags& flags) {
  flags.add(
      "Observability",
      {
          Flag("--kv-events", &options.endpoint,
               "publish KV cache events for routers, in vLLM's format: tcp://HOST:PORT or "
               "ipc://PATH. Subscribers can read all prompts (default: off)")
              .called("ENDPOINT"),
          Flag("--kv-events-replay", &options.replay_endpoint,
               "endpoint where subscribers request events that they missed (default: off)")
              .called("ENDPOINT"),
          {"--kv-events-topic", &options.topic, "first frame of each message (default: empty)"},
          {"--kv-events-encoding", &encoding,
           "events as msgpack arrays or maps: array or map (default: array)"},
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
