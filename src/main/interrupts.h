#pragma once

namespace kvik {

// SIGINT and SIGTERM. Before catch_them() they end the process at once with exit code 130; from
// then on they are events that wait() sees.
class Interrupts {
 public:
  static void install();
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

  // Whether SIGTERM ever came: the program shall end, not only what it does.
  static bool is_terminated();
};

}  // namespace kvik
