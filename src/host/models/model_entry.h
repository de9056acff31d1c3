#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/result.h"
#include "host/models/model_launch.h"
#include "host/models/model_process.h"
#include "host/models/model_spec.h"
#include "service/model_servers.h"

namespace kvik {

// A request that uses a model, or waits for it.
struct ModelWaiter {
  bool is_admitted = false;  // it may use the model, which therefore stays loaded
  std::function<void()> on_change;
};

// Changes when a model's file, or one directly in its folder, is written, replaced or removed.
struct FileStamp {
  std::filesystem::file_time_type changed;  // the newest
  uint64_t n_bytes = 0;                     // 0 if there is no file
  bool operator==(const FileStamp&) const = default;
};
FileStamp file_stamp_of(const std::string& path);

// State of a model in the ModelManager. Guarded by its mutex.
struct ModelEntry {
  ModelSpec spec;
  // It has left the list of models, and is forgotten when nothing of it runs.
  bool is_removed = false;
  std::optional<Duration> keep_alive;
  ModelState state = ModelState::kUnloaded;
  std::optional<ModelLaunch> launch;  // known since the first load
  bool is_planned = false;            // `launch` is for the next load: files change
  std::optional<ModelProcess> process;
  uint16_t port = 0;
  double progress = 0;
  std::string status;                           // reported by the process last
  ErrorCode failure = ErrorCode::kUnavailable;  // of the load, reported by the process
  std::string counters;                         // reported by the process at its end
  uint32_t n_ctx = 0;                           // reported by the process; 0: not yet
  // The process computes responses without a connection, as it reported.
  bool has_background = false;
  std::optional<Error> error;  // kFailed
  uint32_t n_failures = 0;     // in a row
  TimePoint retry_at;          // kFailed: when it may be tried again
  FileStamp file_stamp;        // before the last load
  TimePoint load_begin, loaded_at, last_used;
  TimePoint last_sign;       // newest message of the process
  TimePoint end_by;          // kUnloading: when the process is killed
  bool is_killed = false;    // because it did not end in time
  bool must_unload = false;  // as soon as no request uses it
  bool is_yielding = false;  // new requests wait, so that its memory becomes free
  std::vector<std::shared_ptr<ModelWaiter>> waiters;
  TimePoint waits_since;  // of the oldest request that is not admitted
  uint64_t kept_bytes = 0, n_loads = 0, n_crashes = 0;
  double load_s = 0;

  bool has_admitted() const;
  bool has_waiting() const;
  // Returns whether the model is loaded and could be unloaded.
  bool is_idle() const {
    return state == ModelState::kLoaded && !has_admitted() && !has_background;
  }
  // Returns when the model is unloaded if it stays unused; std::nullopt: not by time.
  std::optional<TimePoint> expires_at() const;

  ModelStatus shown(TimePoint now) const;
  // Returns whether the process has served for so long that it is started again at once.
  bool is_stable(TimePoint now) const;
  // Returns the planned memory of the process; 0 without one.
  uint64_t process_bytes() const { return process ? launch->planned_bytes : 0; }

  void begin_load(TimePoint now);
  // Starts the process of `launch`, which must send a sign of life within hang_time once it serves.
  // Errors: those of ModelProcess::start().
  Result<void> start(const FileDescriptor& listening, uint16_t listening_port, Duration hang_time);
  void set_loaded(TimePoint now);
  // The model may be tried again after 2 s, doubled at each failure in a row, up to a minute.
  void set_failed(Error reason, TimePoint now);
  // Ends a failure if the file has changed since the load, or also if the pause is over.
  void retry_if_changed();
  void retry_if_due(TimePoint now);
  // Returns the error of a process that ended: the one that it said while it loaded, or
  // kUnavailable.
  Error error_of_end(bool was_loading, const std::string& reason, TimePoint now) const;
  // Returns why the process ended: as it said, because it was killed, or by its exit code.
  std::string reason_of_end(int exit_code) const;
  // Returns what happened to a process that ended: whether it was loaded, and for how long.
  std::string text_of_end(TimePoint now) const;
  // Measures, reduces to n_bytes at most, or removes the pages that the process left in the folder
  // of `launch`.
  void measure_kept();
  void trim_kept(uint64_t n_bytes, const TrimKept& trim);
  void drop_kept();

  // Takes an assignment that the process has sent, such as {"STATUS", "loading 42%"}. Returns
  // whether the process has become ready.
  bool take_message(const std::string& name, const std::string& value, TimePoint now);
};

}  // namespace kvik
