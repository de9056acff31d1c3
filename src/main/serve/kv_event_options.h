#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "host/kv_events/kv_event_publisher.h"
#include "main/flags.h"

namespace kvik {

// The flags --kv-events and --kv-events-*.
struct KvEventFlags {
  KvEventOptions options;
  std::string encoding = "array";

  void add_to(Flags& flags);
  bool is_wanted() const { return !options.endpoint.empty(); }

  // Starts the publisher; returns null if --kv-events is not given. Errors: kInvalidArgument, and
  // those of KvEventPublisher::start().
  Result<std::unique_ptr<KvEventPublisher>> start() const;
};

}  // namespace kvik
