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

// Lets one coroutine at a time do something, and tenants one after the other, so that a tenant with
// many requests does not keep others waiting for all of them. Network thread only.
class Turns {
 public:
  // Ends its turn when it dies.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_) turns_->pass_on();
    }

   private:
    friend class Turns;
    explicit Turn(Turns& turns) : turns_(&turns) {}
    Turns* turns_;
  };

  boost::asio::awaitable<Turn> wait(std::string tenant) {
    if (!is_taken_) {
      is_taken_ = true;
      co_return Turn(*this);
    }
    Place place(*this, std::move(tenant), co_await boost::asio::this_coro::executor);
    boost::system::error_code error;
    co_await place.called.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, error));
    co_return Turn(*this);
  }

 private:
  struct Place;
  struct Queue {
    std::string tenant;
    std::deque<Place*> places;  // never empty
  };

  // In its tenant's queue until it is called.
  struct Place {
    Place(Turns& its_turns, std::string tenant, const boost::asio::any_io_executor& executor)
        : turns(its_turns), called(executor, boost::asio::steady_timer::time_point::max()) {
      const auto queue = std::ranges::find(turns.queues_, tenant, &Queue::tenant);
      if (queue != turns.queues_.end()) {
        queue->places.push_back(this);
      } else {
        turns.queues_.push_back({std::move(tenant), {this}});
      }
    }
    ~Place() {
      for (auto queue = turns.queues_.begin(); queue != turns.queues_.end(); ++queue) {
        if (std::erase(queue->places, this) == 0) continue;
        if (queue->places.empty()) turns.queues_.erase(queue);
        return;
      }
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    Turns& turns;
    boost::asio::steady_timer called;
  };

  // Calls the first of the tenant that waits longest for a turn. Takes no memory.
  void pass_on() {
    if (queues_.empty()) {
      is_taken_ = false;
      return;
    }
    const auto queue = queues_.begin();
    Place* const place = queue->places.front();
    queue->places.pop_front();
    if (queue->places.empty()) {
      queues_.erase(queue);
    } else {
      queues_.splice(queues_.end(), queues_, queue);
    }
    place->called.cancel();
  }

  bool is_taken_ = false;
  std::list<Queue> queues_;  // of each tenant that waits, in the order of their next turns
};

}  // namespace kvik
