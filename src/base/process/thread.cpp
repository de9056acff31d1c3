#include "base/process/thread.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace kvik {

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::exception& refused) {  // std::system_error, std::bad_alloc
    return fail(ErrorCode::kIo, fmt::format("cannot start a thread: {}", refused.what()));
  }
}

}  // namespace kvik
