#include "base/process/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdint>

#include "base/check.h"

namespace kvik {
namespace {

// Signal handlers may only use what is async-signal-safe: atomics and write().
std::atomic<bool> is_caught = false;
std::atomic<bool> is_term_seen = false;
std::atomic<bool> is_cpu_time_over = false;
std::atomic<int> signals_to_catch = INT_MAX;  // the signal after these ends the process
std::atomic<int> code_of_interrupt = 1;
std::atomic<int> code_of_deadline = 1;
int signal_event = -1;
int done_event = -1;

void raise_event(int event) {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(event, &one, sizeof(one));
}

void on_signal(int signal) {
  if (signal == SIGXCPU && is_cpu_time_over.exchange(true)) return;
  if (!is_caught || signals_to_catch.fetch_sub(1) <= 0) ::_exit(code_of_interrupt);
  if (signal != SIGINT) is_term_seen = true;
  raise_event(signal_event);
}

bool is_default(int signal) {
  struct sigaction found {};
  return ::sigaction(signal, nullptr, &found) == 0 && (found.sa_flags & SA_SIGINFO) == 0 &&
         found.sa_handler == SIG_DFL;
}

bool is_ignored(int signal) {
  struct sigaction found {};
  return ::sigaction(signal, nullptr, &found) == 0 && (found.sa_flags & SA_SIGINFO) == 0 &&
         found.sa_handler == SIG_IGN;
}

void on_deadline(int /*signal*/) { ::_exit(code_of_deadline); }

}  // namespace

void Interrupts::install(int exit_code) {
  code_of_interrupt = exit_code;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGPWR, SIGXCPU}) {
    ::sigaction(signal, &action, nullptr);
  }
  for (const int signal : {SIGHUP, SIGQUIT}) {
    if (!is_ignored(signal)) ::sigaction(signal, &action, nullptr);
  }
  // A profiler that was loaded before us may have installed a handler.
  for (const int signal : {SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT}) {
    if (is_default(signal)) std::signal(signal, SIG_IGN);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    if (is_default(signal)) std::signal(signal, SIG_IGN);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit then fails with EFBIG
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error of write()
}

bool Interrupts::open_events() {
  signal_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  done_event = ::eventfd(0, EFD_CLOEXEC);
  return signal_event >= 0 && done_event >= 0;
}

void Interrupts::catch_them() { is_caught = true; }

void Interrupts::catch_first() {
  signals_to_catch = 1;
  is_caught = true;
}

void Interrupts::end_within(std::chrono::seconds at_most, int exit_code) {
  code_of_deadline = exit_code;
  signals_to_catch = 0;
  struct sigaction action {};
  action.sa_handler = on_deadline;
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(static_cast<unsigned>(at_most.count()));
}

bool Interrupts::wait() {
  pollfd events[] = {{signal_event, POLLIN, 0}, {done_event, POLLIN, 0}};
  while (::poll(events, 2, -1) <= 0) {
  }
  const bool is_signal = (events[0].revents & POLLIN) != 0;
  uint64_t count = 0;
  [[maybe_unused]] const auto n =
      ::read(is_signal ? signal_event : done_event, &count, sizeof(count));
  return is_signal;
}

void Interrupts::notify() { raise_event(done_event); }

bool Interrupts::is_raised() {
  pollfd event = {signal_event, POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

int Interrupts::signal_fd() { return signal_event; }

void Interrupts::take() {
  uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(signal_event, &count, sizeof(count));
}

bool Interrupts::is_terminated() { return is_term_seen; }

}  // namespace kvik
