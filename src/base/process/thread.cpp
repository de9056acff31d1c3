#include "base/process/thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvik {

Result<std::thread> start_thread(std::string_view name, std::function<void()> body) {
  CHECK(name.size() <= 15);
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), std::string(name).c_str());
    return thread;
  } catch (const std::exception& refused) {  // std::system_error, std::bad_alloc
    return fail(ErrorCode::kIo, fmt::format("cannot start a thread: {}", refused.what()));
  }
}

void lower_thread_priority() {
  constexpr int kHigherNice = 10;  // the system clamps the result to 19
  // On Linux each thread has a nice value. If the system refuses, it is unchanged.
  const auto self = static_cast<id_t>(gettid());
  static_cast<void>(setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kHigherNice));
}

}  // namespace kvik
