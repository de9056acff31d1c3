#pragma once

#include <memory>

#include "base/clock.h"
#include "engine/request/request.h"
#include "engine/schedule/queue_limit.h"

namespace kvik {

// A request that waits for its first step.
struct QueuedRequest {
  RequestId id{};
  Request request{};
  std::shared_ptr<EventSink> sink{};
  QueuePlace place{};
  TimePoint submitted{};
};

}  // namespace kvik
