#pragma once

#include <chrono>

namespace kvik {

// Handles the signals that request the end of a process: SIGINT, SIGTERM, SIGALRM, SIGPWR and
// SIGXCPU, and SIGHUP and SIGQUIT unless they are ignored, as under nohup and some shells. Before
// catch_them() or catch_first() they end the process at once; afterwards they are events that
// wait() returns. SIGXCPU, which the system repeats every second, is one event. Signals without a
// meaning for Kvik (SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, realtime signals) are
// ignored. Writing to a closed pipe or beyond a file size limit is an error of the write and not a
// signal. Faults (SIGSEGV, SIGABRT, SIGSYS, …) have their default action, a core dump.
class Interrupts {
 public:
  // Installs the handlers and sets the exit code of a process that a signal ends at once. Makes
  // only system calls and opens nothing, so that it may run before the libraries are initialized.
  static void install(int exit_code);
  // Creates the event descriptors that catch_them() and wait() need. Returns false if the process
  // cannot open two more files.
  static bool open_events();
  // Makes the signals events from now on.
  static void catch_them();
  // Catches the first signal; a second one ends the process at once.
  static void catch_first();

  // Ends the process with that exit code after the time limit, or at the next signal with the code
  // of install(). For the end of a process, which may wait for a device that hangs.
  static void end_within(std::chrono::seconds at_most, int exit_code);

  // Waits for a signal (returns true) or for notify() (returns false). Can be called again.
  static bool wait();

  // Ends a wait(). Any thread.
  static void notify();

  // Returns whether a signal arrived that neither wait() nor take() has returned.
  static bool is_raised();

  // Returns a descriptor that is readable while is_raised() is true.
  static int signal_fd();
  // Consumes the pending signals, so that is_raised() returns false.
  static void take();

  // Returns true if a signal other than SIGINT arrived: the program should end, not only its
  // current task.
  static bool is_terminated();
};

}  // namespace kvik
