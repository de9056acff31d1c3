#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/process/thread.h"
#include "base/result.h"

namespace kvik {

// Threads beside the network's own. (Asio's pool throws where the system refuses one, and then
// waits for ever for those that it has.)
class Offload {
 public:
  Offload() = default;
  ~Offload() { join(); }
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  enum class Priority : uint8_t { kNormal, kLow };

  // kIo where the system refuses one.
  Result<void> start(std::string_view name, unsigned n_threads, Priority priority) {
    for (unsigned i = 0; i < n_threads; ++i) {
      TRY_ASSIGN(std::thread thread, start_thread(name, [this, priority] {
                   if (priority == Priority::kLow) lower_thread_priority();
                   run();
                 }));
      threads_.push_back(std::move(thread));
    }
    return {};
  }

  auto get_executor() { return io_.get_executor(); }

  // Waits until all that was given to it is done.
  void join() {
    work_.reset();
    for (std::thread& thread : threads_) join_if_started(thread);
  }

 private:
  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& exception) {  // memory running out
        log::error("offload thread: {}", exception.what());
      }
    }
  }

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace kvik
