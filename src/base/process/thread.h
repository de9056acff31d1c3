#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace kvik {

// Starts a thread with a name of at most 15 bytes, which `top -H` shows. Errors: kIo if the system
// refuses (no memory, too many tasks), where std::thread would throw. All threads of the program
// are started here.
Result<std::thread> start_thread(std::string_view name, std::function<void()> body);

// Lowers the priority of the calling thread for its lifetime.
void lower_thread_priority();

// Joins a thread that may not have been started.
inline void join_if_started(std::thread& thread) {
  if (thread.joinable()) thread.join();
}

}  // namespace kvik
