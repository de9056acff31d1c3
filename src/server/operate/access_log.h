#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "server/http/pending_reply.h"
#include "server/http/trace_parent.h"

namespace kvik {

// One request and its answer.
struct AccessRecord {
  std::chrono::system_clock::time_point time;  // start of the request
  std::string request_id;
  std::string remote;  // the client's address
  std::string method;
  std::string path;
  unsigned status = 0;  // 499: the client left first
  double ms = 0;        // time from its first byte to the end of its answer
  std::string key;      // the API key's name; empty without one
  std::optional<TraceParent> trace;
  std::optional<double> ttft_ms;  // time from its first byte to the first token
  ReplyFacts facts;
};

// Writes one JSON object per line. A separate thread waits for the file: if it is slower than the
// requests, the oldest waiting lines are dropped and counted. Any thread.
class AccessLog {
 public:
  // Appends to the file at `path`, or to stdout if that is "-". A pipe must have a reader. Errors:
  // kIo.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);

  ~AccessLog();  // writes the waiting lines; waits up to two seconds for a pipe that is not read
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const AccessRecord& record);
  uint64_t lines_left_out() const;

 private:
  explicit AccessLog(int fd) : fd_(fd) {}

  void write_lines();
  int write_all(std::string_view bytes);
  bool wait_for_room();

  const int fd_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::string> waiting_ GUARDED_BY(mutex_);
  uint64_t n_left_out_ GUARDED_BY(mutex_) = 0;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::thread writer_;
};

// Returns {"time":"2026-11-21T20:00:00.123Z","request_id":…}; unknown fields are omitted.
std::string access_line(const AccessRecord& record);

}  // namespace kvik
