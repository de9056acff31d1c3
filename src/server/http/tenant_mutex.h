#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <list>
#include <string>
#include <utility>

namespace kvik {

// A mutex for coroutines that is passed round-robin among tenants, so that a tenant with many
// requests delays those of another one by at most one. Network thread only.
class TenantMutex {
 public:
  // Holds the mutex during its lifetime.
  class Lock {
   public:
    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock() {
      if (mutex_) mutex_->unlock();
    }

   private:
    friend class TenantMutex;
    explicit Lock(TenantMutex& mutex) : mutex_(&mutex) {}
    TenantMutex* mutex_;
  };

  boost::asio::awaitable<Lock> lock(std::string tenant) {
    if (!is_locked_) {
      is_locked_ = true;
      co_return Lock(*this);
    }
    Waiter waiter(*this, std::move(tenant), co_await boost::asio::this_coro::executor);
    boost::system::error_code error;
    co_await waiter.woken.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, error));
    co_return Lock(*this);
  }

 private:
  struct Waiter;
  struct Queue {
    std::string tenant;
    std::deque<Waiter*> waiters;  // never empty
  };

  // An entry of its tenant's queue until it is woken.
  struct Waiter {
    Waiter(TenantMutex& its_mutex, std::string tenant, const boost::asio::any_io_executor& executor)
        : mutex(its_mutex), woken(executor, boost::asio::steady_timer::time_point::max()) {
      const auto queue = std::ranges::find(mutex.queues_, tenant, &Queue::tenant);
      if (queue != mutex.queues_.end()) {
        queue->waiters.push_back(this);
      } else {
        mutex.queues_.push_back({std::move(tenant), {this}});
      }
    }
    ~Waiter() {
      for (auto queue = mutex.queues_.begin(); queue != mutex.queues_.end(); ++queue) {
        if (std::erase(queue->waiters, this) == 0) continue;
        if (queue->waiters.empty()) mutex.queues_.erase(queue);
        return;
      }
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    TenantMutex& mutex;
    boost::asio::steady_timer woken;
  };

  // Passes the mutex to the next waiting tenant. Allocates nothing.
  void unlock() {
    if (queues_.empty()) {
      is_locked_ = false;
      return;
    }
    const auto queue = queues_.begin();
    Waiter* const waiter = queue->waiters.front();
    queue->waiters.pop_front();
    if (queue->waiters.empty()) {
      queues_.erase(queue);
    } else {
      queues_.splice(queues_.end(), queues_, queue);
    }
    waiter->woken.cancel();
  }

  bool is_locked_ = false;
  std::list<Queue> queues_;  // queues of waiting tenants, the next one first
};

}  // namespace kvik
