#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace kvik {

// kUnloading: its process is ending. kFailed: the last attempt to load it failed; the next use
// tries again.
enum class ModelState : uint8_t { kUnloaded, kLoading, kLoaded, kUnloading, kFailed };

// Variable in which the server of a model reports its context to the router, besides READY=1 of
// sd_notify(3).
inline constexpr std::string_view kContextVariable = "X_KVIK_CONTEXT";

// Variable in which the server of a model reports its counters when it ends: a line of a page of
// metrics, without its end. Sent for each line.
inline constexpr std::string_view kCountersVariable = "X_KVIK_COUNTERS";

// Variable in which the server of a model reports the ErrorCode, as a number, with which its load
// failed, besides the sentence in STATUS.
inline constexpr std::string_view kErrorVariable = "X_KVIK_ERROR";

// Variable in which the server of a model reports how many responses it computes without a
// connection. Sent when the first begins and the last ends.
inline constexpr std::string_view kBackgroundVariable = "X_KVIK_BACKGROUND";

// Name of the socket that a router passes to the server of a model, in LISTEN_FDNAMES of
// sd_listen_fds(3).
inline constexpr std::string_view kRouterSocketName = "kvik-router";

// Returns the name that clients see: "unloaded", "loading" …
std::string_view name_of(ModelState state);

// A model of a router.
struct ModelStatus {
  std::string name;
  std::vector<std::string> aliases;
  std::string path;  // argument of open_model()
  ModelState state = ModelState::kUnloaded;
  double progress = 0;             // while it is loading: share of the weights, 0 to 1
  std::optional<Error> error;      // kFailed
  uint64_t planned_bytes = 0;      // memory while it is loaded; 0: not known yet
  uint32_t n_ctx = 0;              // context in tokens; 0: it was not loaded yet
  uint64_t kept_bytes = 0;         // memory of the KV pages kept while it is not loaded
  uint32_t n_uses = 0;             // requests that use it or wait for it, with a connection
  uint64_t n_loads = 0;            // how often it was loaded
  uint64_t n_crashes = 0;          // how often its process ended unexpectedly
  double load_s = 0;               // duration of the last load, in seconds
  std::optional<uint16_t> port;    // kLoaded: port of its server on 127.0.0.1
  std::optional<double> unload_s;  // kLoaded and unused: seconds until it is unloaded
};

// The progress of a use: see ModelServers::use().
struct ModelReadiness {
  ModelState state = ModelState::kUnloaded;
  double progress = 0;
  uint64_t n_loads = 0;          // how often it was loaded
  std::optional<uint16_t> port;  // present: the model's server takes requests at this port
  std::optional<Error> error;    // present: the model could not be loaded, or ended soon after
};

// A use of a model by a request: the model is not unloaded before it ends, which its destructor
// does. Any thread.
class ModelUse {
 public:
  virtual ~ModelUse() = default;
  virtual ModelReadiness readiness() const = 0;
};

// The models of a router, each served by a process of its own on loopback. Loads a model when it is
// used, and unloads the least recently used ones when memory is needed. Any thread.
class ModelServers {
 public:
  virtual ~ModelServers() = default;

  // Returns all models in the order of the command line, or of the stored models.
  virtual std::vector<ModelStatus> list() const = 0;

  // Returns the name of the model that a request means by `requested`: a name, an alias, either
  // with ":latest", or MODEL:ADAPTER. Empty: the model that was used last, or the first one.
  // Errors: kNotFound, which lists the names.
  virtual Result<std::string> resolve(std::string_view requested) const = 0;

  // Begins to use a model by its name(), and loads it if necessary. The readiness has an error if
  // the model has left the list meanwhile. `on_change` is called, on any thread, when the readiness
  // has changed; also shortly after the use has ended.
  virtual std::unique_ptr<ModelUse> use(const std::string& name,
                                        std::function<void()> on_change) = 0;

  // Sets the time after its last use until a model is unloaded. std::nullopt: until memory is
  // needed. Holds until it is unloaded.
  virtual void set_keep_alive(const std::string& name, std::optional<Duration> keep_alive) = 0;

  // Lets the next use of a model that has failed try again at once.
  virtual void end_pause(const std::string& name) = 0;

  // Unloads a model as soon as no request uses it. Does nothing if it is not loaded.
  virtual void unload(const std::string& name) = 0;
};

}  // namespace kvik
