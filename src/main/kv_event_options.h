#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "host/kv_events/kv_event_publisher.h"
#include "main/flags.h"

namespace kvik {

// --kv-events and its kind.
struct KvEventFlags {
  KvEventOptions options;
  std::string encoding = "array";

  void add_to(Flags& flags);

  // Null where nobody is to hear.
  Result<std::unique_ptr<KvEventPublisher>> start() const;
};

}  // namespace kvik
