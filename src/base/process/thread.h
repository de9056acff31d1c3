#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace kvik {

// Starts a thread that `top -H` shows under that name, of at most 15 bytes. The system may refuse
// (no memory, too many tasks): kIo says so, where the standard library would throw. No other place
// starts one.
Result<std::thread> start_thread(std::string_view name, std::function<void()> body);

// Lets other threads of the machine run before the calling one, for as long as it lives.
void lower_thread_priority();

// What waits for a thread that may not have been started.
inline void join_if_started(std::thread& thread) {
  if (thread.joinable()) thread.join();
}

}  // namespace kvik
