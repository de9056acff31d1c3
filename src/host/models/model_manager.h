#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/result.h"
#include "host/models/model_launch.h"
#include "host/models/model_spec.h"
#include "service/model_servers.h"

namespace kvik {

// A listening socket on 127.0.0.1.
struct LoopbackSocket {
  FileDescriptor socket;
  uint16_t port = 0;
};

struct ModelManagerOptions {
  std::vector<ModelSpec> models;
  // Returns the models if they have changed since its last call. Called by list() and resolve(), on
  // one thread at a time. Empty: they do not change.
  std::function<std::optional<std::vector<ModelSpec>>()> changed_models;
  uint64_t memory_bytes = 0;  // of the loaded models and the kept pages together
  // Called on the manager's thread before each load.
  std::function<Result<ModelLaunch>(const ModelSpec&)> plan;
  std::function<Result<LoopbackSocket>()> listen;
  // Called on the manager's thread, while list() and use() wait. Empty: all pages are removed.
  TrimKept trim_kept = {};
  // Called when a model's process has ended, before list() shows it: with the model's name, how
  // often it was loaded, and what the process has sent as kCountersVariable. It must not call the
  // manager. Empty: not called.
  std::function<void(const std::string& name, uint64_t n_loads, const std::string& counters)>
      on_end = {};
  // Time for a process to end before it is killed.
  Duration end_time = std::chrono::seconds(75);
  // A process that has sent no message for this long is killed: while it serves, a sign of life
  // (sd_watchdog_enabled(3)), and while it loads, the progress.
  Duration hang_time = std::chrono::seconds(60);
  Duration load_hang_time = std::chrono::minutes(5);
  // A load that has sent no message for this long does not keep the loads of other models waiting.
  Duration stall_time = std::chrono::seconds(10);
  // If a request has waited this long for memory that other models use, new requests for one of
  // those wait until it has been unloaded; a load without requests is ended.
  Duration patience = std::chrono::seconds(5);
};

// Runs one process per loaded model, so that a crash of one harms no other, and memory returns to
// the system when a model is unloaded:
//
// READY is the message "READY=1" of sd_notify(3), which the process sends when it serves. A failed
// model is tried again after 2 s, doubled at each failure in a row up to a minute, and at once if
// its file has changed.
//
//   unloaded ──use──▶ loading ──READY──▶ loaded ──idle, memory──▶ unloading ──end──▶ unloaded
//                        └──end──▶ failed (for a while)   └──crash──▶ unloaded
//
// A model is loaded if its plan fits beside those that are loaded or ending. Otherwise unused
// memory is freed, the least recently used first: processes of models that no request uses, and
// pages that unloaded models left, of these only as many as necessary. Models load one at a time,
// in the order of their requests; only beside a load that has stalled, the next one begins.
class ModelManager final : public ModelServers {
 public:
  // Errors: kIo if the system refuses a thread or a descriptor.
  static Result<std::unique_ptr<ModelManager>> start(ModelManagerOptions options);
  // Ends all processes, which complete the running requests.
  ~ModelManager() override;
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;

  std::vector<ModelStatus> list() const override;
  Result<std::string> resolve(std::string_view requested) const override;
  std::unique_ptr<ModelUse> use(const std::string& name, std::function<void()> on_change) override;
  void set_keep_alive(const std::string& name, std::optional<Duration> keep_alive) override;
  void end_pause(const std::string& name) override;
  void unload(const std::string& name) override;

 private:
  class Impl;
  explicit ModelManager(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
};

}  // namespace kvik
