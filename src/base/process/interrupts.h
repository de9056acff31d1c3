#pragma once

#include <chrono>

namespace kvik {

// The signals that ask a process to end: SIGINT, SIGTERM, SIGALRM, SIGPWR and SIGXCPU, and SIGHUP
// and SIGQUIT unless they are ignored, as nohup and shells have it. Before catch_them() or
// catch_first() they end the process at once; from then on they are events that wait() sees.
// SIGXCPU, which the system repeats every second, is one event. Signals that mean nothing to Kvik
// (SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, those of real time) are ignored. Writing
// to a reader that went away, or past a limit of a file's size, is an error of the write and no
// signal. Faults (SIGSEGV, SIGABRT, SIGSYS, …) keep the system's effect, a core dump.
class Interrupts {
 public:
  // Sets the handlers, and the exit code of a process that a signal ends at once. Makes system
  // calls only and opens nothing: it may run before the libraries are initialized.
  static void install(int exit_code);
  // Creates the events, which catch_them() and wait() need. Returns false where the process may not
  // open two files more.
  static bool open_events();
  static void catch_them();
  // Catches the first signal; a second one ends the process at once.
  static void catch_first();

  // Ends the process with that exit code when the time is over, or at the next signal with the
  // code of install(): for the end of a process, which may wait for a device that hangs.
  static void end_within(std::chrono::seconds at_most, int exit_code);

  // Waits until a signal comes (true) or notify() is called (false). A later call waits anew.
  static bool wait();

  // Ends a wait() from any thread.
  static void notify();

  // Whether a signal came that neither wait() nor take() has seen.
  static bool is_raised();

  // Readable while a signal came that neither wait() nor take() has seen.
  static int signal_fd();
  static void take();

  // Returns true if a signal other than SIGINT arrived: the program has to end, not only what it
  // does.
  static bool is_terminated();
};

}  // namespace kvik
