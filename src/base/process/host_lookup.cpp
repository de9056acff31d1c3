#include "base/process/host_lookup.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr int kMaxRunning = 8;  // lookups at a time, abandoned ones included

std::atomic<int> n_running{0};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

struct Answer {
  int error = 0;         // of getaddrinfo()
  int system_error = 0;  // errno, for EAI_SYSTEM
  AddressList list = nullptr;
};

Answer ask(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  Answer answer;
  answer.error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  answer.system_error = errno;
  if (answer.error == 0) answer.list.reset(found);
  return answer;
}

// A lookup in a separate thread. That thread and the caller share it, because the caller may stop
// waiting first.
class Lookup {
 public:
  Lookup(std::string host, std::string port) : host_(std::move(host)), port_(std::move(port)) {}

  void run() {
    Answer answer = ask(host_, port_, 0);
    --n_running;
    const MutexLock lock(mutex_);
    answer_ = std::move(answer);
    is_done_ = true;
    done_.notify_all();
  }

  // Returns false if there is no answer at the deadline.
  bool wait(TimePoint deadline, Answer& answer) {
    const MutexLock lock(mutex_);
    if (!done_.wait_until(mutex_, deadline, [&]() REQUIRES(mutex_) { return is_done_; })) {
      return false;
    }
    answer = std::move(answer_);
    return true;
  }

 private:
  const std::string host_, port_;
  Mutex mutex_;
  CondVar done_;
  bool is_done_ GUARDED_BY(mutex_) = false;
  Answer answer_ GUARDED_BY(mutex_);
};

std::unexpected<Error> failed(const std::string& host, std::string_view why) {
  return fail(ErrorCode::kIo, fmt::format("the lookup of host '{}': {}", host, why));
}

Result<Answer> ask_until(const std::string& host, const std::string& port, TimePoint deadline) {
  if (++n_running > kMaxRunning) {
    --n_running;
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("the lookup of host '{}': {} lookups are still unanswered", host, kMaxRunning));
  }
  const auto lookup = std::make_shared<Lookup>(host, port);
  auto thread = start_thread("kvik-lookup", [lookup] { lookup->run(); });
  if (!thread) {
    --n_running;
    return std::unexpected<Error>(thread.error());
  }
  thread->detach();
  Answer answer;
  if (!lookup->wait(deadline, answer)) return failed(host, "no name server answered in time");
  return answer;
}

}  // namespace

Result<std::vector<HostAddress>> look_up_host(const std::string& host, uint16_t port,
                                              TimePoint deadline) {
  const std::string port_text = std::to_string(port);
  Answer answer = ask(host, port_text, AI_NUMERICHOST);  // asks no name server
  if (answer.error != 0) {
    TRY_ASSIGN(answer, ask_until(host, port_text, deadline));
  }
  if (answer.error == EAI_SYSTEM) return failed(host, std::strerror(answer.system_error));
  if (answer.error != 0) return failed(host, ::gai_strerror(answer.error));
  std::vector<HostAddress> addresses;
  for (const addrinfo* one = answer.list.get(); one != nullptr; one = one->ai_next) {
    HostAddress& address = addresses.emplace_back();
    address.n_bytes = std::min<socklen_t>(one->ai_addrlen, sizeof(address.address));
    std::memcpy(&address.address, one->ai_addr, address.n_bytes);
  }
  return addresses;
}

}  // namespace kvik
