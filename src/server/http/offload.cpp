#include "server/http/offload.h"

#include "base/log.h"

namespace kvik {

class Offload::Posted final : public Task {
 public:
  explicit Posted(std::move_only_function<void()> function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  std::move_only_function<void()> function_;
};

Result<void> Offload::start(std::string_view name, unsigned n_threads, Priority priority) {
  for (unsigned i = 0; i < n_threads; ++i) {
    TRY_ASSIGN(std::thread thread, start_thread(name, [this, priority] {
                 if (priority == Priority::kLow) lower_thread_priority();
                 work();
               }));
    threads_.push_back(std::move(thread));
  }
  return {};
}

void Offload::post(std::move_only_function<void()> function) {
  push(std::make_shared<Posted>(std::move(function)));
}

void Offload::join() {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) join_if_started(thread);
}

void Offload::push(std::shared_ptr<Task> task) {
  const MutexLock lock(mutex_);
  Task* const added = task.get();
  (last_ ? last_->next_ : first_) = std::move(task);
  last_ = added;
  changed_.notify_one();
}

// Returns null when everything is done and nothing will follow.
std::shared_ptr<Offload::Task> Offload::next() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return first_ || is_over_; });
  std::shared_ptr<Task> task = std::move(first_);
  if (!task) return nullptr;
  first_ = std::move(task->next_);
  if (!first_) last_ = nullptr;
  return task;
}

void Offload::work() {
  while (const std::shared_ptr<Task> task = next()) {
    try {
      task->run();
    } catch (const std::exception& exception) {  // out of memory
      log::error("offload thread: {}", exception.what());
    }
  }
}

}  // namespace kvik
