#pragma once

namespace kvik {

// SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup has it). Before catch_them() they end
// the process at once; from then on they are events that wait() sees. Writing to a reader that went
// away, or past a limit of a file's size, is an error of the write and no signal.
class Interrupts {
 public:
  // exit_code: of a process that a signal ends at once.
  static void install(int exit_code);
  static void catch_them();

  // Waits until a signal comes (true) or notify() is called (false). A later call waits anew.
  static bool wait();

  // Ends a wait() from any thread.
  static void notify();

  // Whether a signal came that neither wait() nor take() has seen.
  static bool is_raised();

  // Readable while a signal came that neither wait() nor take() has seen.
  static int signal_fd();
  static void take();

  // Whether SIGTERM or SIGHUP ever came: the program shall end, not only what it does.
  static bool is_terminated();
};

}  // namespace kvik
