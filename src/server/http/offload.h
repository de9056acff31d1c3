#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/process/thread.h"
#include "base/result.h"

namespace kvik {

// Worker threads of the HTTP side. They run tasks in the order of their submission. start() is
// called once, before all others; call() and post() may be called from any thread, until join().
//
// (Asio's pool throws if the system refuses a thread, and then
// waits forever for the others. And if an Asio coroutine runs out of memory, it ends on its
// executor: if there is no memory for that step either, the process ends. Therefore no coroutine
// runs here, and nothing allocates between call() and its answer.)
class Offload {
 public:
  Offload() = default;
  ~Offload() { join(); }
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  enum class Priority : uint8_t { kNormal, kLow };

  // Errors: kIo if the system refuses a thread.
  Result<void> start(std::string_view name, unsigned n_threads, Priority priority);

  // Runs the function on one of the threads, and returns its result, which is not void, on the
  // caller's executor, which must outlive join(). Its exceptions are thrown to the caller.
  template <class Function>
  boost::asio::awaitable<std::invoke_result_t<Function&>> call(Function function);

  // Runs the function on one of the threads. Throws std::bad_alloc if there is no memory.
  void post(std::move_only_function<void()> function);

  // Waits until all tasks are done.
  void join();

 private:
  class Task {
   public:
    virtual ~Task() = default;
    virtual void run() = 0;

   private:
    friend class Offload;
    std::shared_ptr<Task> next_;
  };
  class Posted;
  template <class Function>
  class Call;

  void push(std::shared_ptr<Task> task);
  std::shared_ptr<Task> next();
  void work();

  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Task> first_ GUARDED_BY(mutex_);
  Task* last_ GUARDED_BY(mutex_) = nullptr;
  bool is_over_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// A function, its suspended caller, and its result.
template <class Function>
class Offload::Call final : public Task, public std::enable_shared_from_this<Call<Function>> {
 public:
  using Executor = boost::asio::any_io_executor;
  using Caller = typename boost::asio::async_result<boost::asio::use_awaitable_t<Executor>,
                                                    void()>::handler_type;

  Call(Function function, const Executor& executor)
      : function_(std::move(function)), executor_(executor), work_(executor) {}

  void hold(Caller caller) { caller_.emplace(std::move(caller)); }

  void run() override {
    try {
      result_.emplace(function_());
    } catch (...) {
      error_ = std::current_exception();
    }
    resume();
  }

  // Called after run().
  std::invoke_result_t<Function&> take() {
    if (error_) std::rethrow_exception(error_);
    return std::move(*result_);
  }

 private:
  // Resumes the caller. If there is no memory for that, retries until other requests have freed
  // theirs.
  void resume() {
    constexpr std::chrono::milliseconds kPause{2};
    for (;;) {
      try {
        boost::asio::post(executor_, [self = this->shared_from_this()] {
          Caller caller = std::move(*self->caller_);
          self->caller_.reset();
          self->work_.reset();
          std::move(caller)();
        });
        return;
      } catch (const std::bad_alloc&) {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  Function function_;
  const Executor executor_;
  boost::asio::executor_work_guard<Executor> work_;
  std::optional<Caller> caller_;
  std::optional<std::invoke_result_t<Function&>> result_;
  std::exception_ptr error_;
};

template <class Function>
boost::asio::awaitable<std::invoke_result_t<Function&>> Offload::call(Function function) {
  const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
  const auto task = std::make_shared<Call<Function>>(std::move(function), executor);
  const auto start = [&](auto caller) {
    task->hold(std::move(caller));
    push(task);
  };
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      start, boost::asio::use_awaitable);
  co_return task->take();
}

}  // namespace kvik
