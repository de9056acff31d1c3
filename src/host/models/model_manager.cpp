#include "host/models/model_manager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process/thread.h"
#include "base/quantity.h"
#include "base/text/nearest_name.h"
#include "host/models/folder_bytes.h"
#include "host/models/model_process.h"

namespace kvik {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kLatest = ":latest";
constexpr std::chrono::seconds kLongestSleep{60};
// A model that could not be loaded is tried again after this time, doubled at each failure.
constexpr std::chrono::seconds kRetryAfter{2};
constexpr std::chrono::seconds kRetryAtMost{60};
// A process that ends earlier counts as one that could not be loaded.
constexpr std::chrono::seconds kStable{5};

// Parses "loading 42%".
std::optional<double> progress_in(std::string_view status) {
  const size_t end = status.rfind('%');
  const size_t begin = status.find_last_not_of("0123456789", end == 0 ? 0 : end - 1);
  if (end == std::string_view::npos || begin == std::string_view::npos) return std::nullopt;
  unsigned percent = 0;
  const auto [rest, error] =
      std::from_chars(status.data() + begin + 1, status.data() + end, percent);
  if (error != std::errc() || percent > 100) return std::nullopt;
  return percent / 100.0;
}

}  // namespace

std::optional<std::vector<EvictableMemory>> choose_evictions(std::vector<EvictableMemory> evictable,
                                                             uint64_t n_bytes) {
  std::ranges::sort(evictable, {},
                    [](const EvictableMemory& e) { return std::pair(e.last_used, e.model); });
  std::vector<EvictableMemory> chosen;
  uint64_t n_freed = 0;
  for (const EvictableMemory& entry : evictable) {
    if (n_freed >= n_bytes) break;
    chosen.push_back(entry);
    n_freed += entry.n_bytes;
  }
  if (n_freed < n_bytes) return std::nullopt;
  return chosen;
}

// Shared by the manager and its uses.
class ModelManager::Impl : public std::enable_shared_from_this<ModelManager::Impl> {
 public:
  explicit Impl(ModelManagerOptions options) : options_(std::move(options)) {
    for (ModelSpec& spec : options_.models) {
      Entry& entry = entries_.emplace_back();
      entry.keep_alive = spec.keep_alive;
      entry.spec = std::move(spec);
    }
  }

  Result<void> start() {
    wake_fd_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fd_.is_open()) return fail(ErrorCode::kIo, "the system gives no more descriptors");
    TRY_ASSIGN(thread_, start_thread("kvik-models", [this] { run(); }));
    return {};
  }

  void stop() {
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    wake();
    join_if_started(thread_);
  }

  std::vector<ModelStatus> list() {
    const MutexLock lock(mutex_);
    std::vector<ModelStatus> all;
    for (const Entry& entry : entries_) all.push_back(status_of(entry));
    return all;
  }

  Result<std::string> resolve(std::string_view requested) {
    const MutexLock lock(mutex_);
    if (requested.empty()) return last_used().spec.name;
    if (const Entry* const entry = find_alias(requested)) return entry->spec.name;
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.spec.name);
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no model '{}'{}; the models are {}", requested,
                            did_you_mean(requested, names), fmt::join(names, ", ")),
                "model");
  }

  class Use;
  std::unique_ptr<ModelUse> use(const std::string& name, std::function<void()> on_change);

  void set_keep_alive(const std::string& name, std::optional<Duration> keep_alive) {
    {
      const MutexLock lock(mutex_);
      if (Entry* const entry = find(name)) entry->keep_alive = keep_alive;
    }
    wake();
  }

  void unload(const std::string& name) {
    {
      const MutexLock lock(mutex_);
      Entry* const entry = find(name);
      if (entry && has_process(*entry)) entry->must_unload = true;
    }
    wake();
  }

 private:
  // A request that uses a model, or waits for it.
  struct Waiter {
    bool is_admitted = false;  // it may use the model, which therefore stays loaded
    std::function<void()> on_change;
  };

  struct Entry {
    ModelSpec spec;
    std::optional<Duration> keep_alive;
    ModelState state = ModelState::kUnloaded;
    std::optional<ModelLaunch> launch;  // known since the first load
    bool is_planned = false;            // `launch` is for the next load: files change
    std::optional<ModelProcess> child;
    uint16_t port = 0;
    double progress = 0;
    std::string status;          // reported by the process last
    uint32_t n_ctx = 0;          // reported by the process; 0: not yet
    std::optional<Error> error;  // kFailed
    uint32_t n_failures = 0;     // in a row
    TimePoint retry_at;          // kFailed: when it may be tried again
    TimePoint load_begin, loaded_at, last_used;
    TimePoint last_sign;       // of life of the process
    TimePoint end_by;          // kUnloading: when the process is killed
    bool is_killed = false;    // because it did not end in time
    bool must_unload = false;  // as soon as no request uses it
    bool is_yielding = false;  // new requests wait, so that its memory becomes free
    std::vector<std::shared_ptr<Waiter>> waiters;
    TimePoint waits_since;  // of the oldest request that is not admitted
    uint64_t kept_bytes = 0, n_loads = 0, n_crashes = 0;
    double load_s = 0;
  };

  // --- state, under the mutex ---

  Entry* find(std::string_view name) REQUIRES(mutex_) {
    const auto it = std::ranges::find(entries_, name, [](const Entry& e) { return e.spec.name; });
    return it == entries_.end() ? nullptr : &*it;
  }

  const Entry* find_exact(std::string_view name) const REQUIRES(mutex_) {
    for (const Entry& entry : entries_) {
      if (entry.spec.name == name || std::ranges::count(entry.spec.aliases, name) > 0)
        return &entry;
    }
    return nullptr;
  }

  const Entry* find_alias(std::string_view requested) const REQUIRES(mutex_) {
    if (const Entry* const entry = find_exact(requested)) return entry;
    if (requested.ends_with(kLatest)) {
      const std::string_view plain = requested.substr(0, requested.size() - kLatest.size());
      if (const Entry* const entry = find_exact(plain)) return entry;
    }
    const size_t colon = requested.rfind(':');  // MODEL:ADAPTER
    return colon == std::string_view::npos ? nullptr : find_exact(requested.substr(0, colon));
  }

  const Entry& last_used() const REQUIRES(mutex_) {
    return *std::ranges::max_element(entries_, {}, &Entry::last_used);
  }

  static uint32_t n_admitted(const Entry& entry) {
    return static_cast<uint32_t>(
        std::ranges::count_if(entry.waiters, [](const auto& w) { return w->is_admitted; }));
  }
  static bool has_waiting(const Entry& entry) { return n_admitted(entry) < entry.waiters.size(); }
  static bool has_process(const Entry& entry) { return entry.child.has_value(); }
  static bool is_idle(const Entry& entry) {
    return entry.state == ModelState::kLoaded && n_admitted(entry) == 0;
  }

  static ModelStatus status_of(const Entry& entry) {
    ModelStatus status{.name = entry.spec.name,
                       .aliases = entry.spec.aliases,
                       .path = entry.spec.path,
                       .state = entry.state,
                       .progress = entry.progress,
                       .error = entry.error ? entry.error->message : "",
                       .planned_bytes = entry.launch ? entry.launch->planned_bytes : 0,
                       .n_ctx = entry.n_ctx,
                       .kept_bytes = entry.kept_bytes,
                       .n_uses = static_cast<uint32_t>(entry.waiters.size()),
                       .n_loads = entry.n_loads,
                       .n_crashes = entry.n_crashes,
                       .load_s = entry.load_s,
                       .port = std::nullopt,
                       .unload_s = std::nullopt};
    if (entry.state != ModelState::kLoaded) return status;
    status.port = entry.port;
    if (entry.waiters.empty() && entry.keep_alive)
      status.unload_s =
          std::max(0.0, to_s(entry.last_used + *entry.keep_alive - steady_clock::now()));
    return status;
  }

  // Adds the callbacks of all requests of a model to those that are called without the mutex.
  void notify(Entry& entry) REQUIRES(mutex_) {
    for (const auto& waiter : entry.waiters)
      if (waiter->on_change) calls_.push_back(waiter->on_change);
  }

  void admit_all(Entry& entry) REQUIRES(mutex_) {
    for (const auto& waiter : entry.waiters) waiter->is_admitted = true;
    notify(entry);
  }

  void set_failed(Entry& entry, Error error) REQUIRES(mutex_) {
    log::error("{}: {}", entry.spec.name, error.message);
    const auto pause = kRetryAfter * (1u << std::min(entry.n_failures, 8u));
    ++entry.n_failures;
    entry.retry_at = steady_clock::now() + std::min<Duration>(pause, kRetryAtMost);
    entry.state = ModelState::kFailed;
    entry.error = std::move(error);
    notify(entry);
  }

  // --- the manager's thread ---

  void run() {
    while (true) {
      TimePoint until;
      std::vector<std::function<void()>> calls;
      bool is_over = false;
      {
        const MutexLock lock(mutex_);
        read_processes();
        end_idle();
        if (!is_stopping_) schedule();
        until = next_time();
        calls.swap(calls_);
        is_over = is_stopping_ && std::ranges::none_of(entries_, has_process);
      }
      for (const auto& call : calls) call();
      if (is_over) return;
      if (plan_next()) continue;
      sleep_until(until);
    }
  }

  void wake() {
    const uint64_t one = 1;
    static_cast<void>(!write(wake_fd_.get(), &one, sizeof one));  // fails if it is readable already
  }

  void sleep_until(TimePoint until) {
    std::vector<pollfd> fds = {{.fd = wake_fd_.get(), .events = POLLIN, .revents = 0}};
    {
      const MutexLock lock(mutex_);
      for (const Entry& entry : entries_) {
        if (!entry.child) continue;
        fds.push_back({.fd = entry.child->end_fd(), .events = POLLIN, .revents = 0});
        fds.push_back({.fd = entry.child->message_fd(), .events = POLLIN, .revents = 0});
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    uint64_t ignored = 0;
    static_cast<void>(!read(wake_fd_.get(), &ignored, sizeof ignored));
  }

  void read_processes() REQUIRES(mutex_) {
    for (Entry& entry : entries_) {
      if (!entry.child) continue;
      for (const auto& [name, value] : entry.child->take_messages()) take(entry, name, value);
      if (const auto end = entry.child->end()) take_end(entry, *end);
    }
  }

  void take(Entry& entry, const std::string& name, const std::string& value) REQUIRES(mutex_) {
    if (name == "STATUS") {
      entry.status = value;
      const auto progress = progress_in(value);
      if (entry.state != ModelState::kLoading || !progress) return;
      entry.progress = *progress;
      notify(entry);
    }
    if (name == kContextVariable)
      std::from_chars(value.data(), value.data() + value.size(), entry.n_ctx);
    if (name == "WATCHDOG") entry.last_sign = steady_clock::now();
    if (name != "READY" || value != "1" || entry.state != ModelState::kLoading) return;
    entry.state = ModelState::kLoaded;
    entry.loaded_at = entry.last_used = entry.last_sign = steady_clock::now();
    entry.load_s = to_s(entry.loaded_at - entry.load_begin);
    ++entry.n_loads;
    log::info("{}: loaded in {:.1f} s", entry.spec.name, entry.load_s);
    admit_all(entry);
  }

  void take_end(Entry& entry, const ModelProcess::End& end) REQUIRES(mutex_) {
    entry.child.reset();
    entry.is_yielding = entry.must_unload = entry.is_killed = false;
    const ModelState before = std::exchange(entry.state, ModelState::kUnloaded);
    if (entry.launch && !entry.launch->kept_folder.empty())
      entry.kept_bytes = folder_bytes(entry.launch->kept_folder);
    if (before == ModelState::kUnloading || is_stopping_) {
      log::info("{}: unloaded, {} of KV pages kept", entry.spec.name,
                format_bytes(entry.kept_bytes));
      return;
    }
    for (const auto& waiter : entry.waiters) waiter->is_admitted = false;
    entry.waits_since = steady_clock::now();
    const bool was_loaded = before == ModelState::kLoaded;
    if (was_loaded) ++entry.n_crashes;
    if (was_loaded && entry.loaded_at + kStable < steady_clock::now()) {
      log::error("{}: the model's process ended with {}; the next request starts it again",
                 entry.spec.name, end.text());
      entry.n_failures = 0;
      notify(entry);
      return;
    }
    constexpr std::string_view kFailed = "failed: ";
    const std::string reason = entry.status.starts_with(kFailed)
                                   ? entry.status.substr(kFailed.size())
                                   : fmt::format("its process ended with {}", end.text());
    set_failed(entry, {ErrorCode::kUnavailable,
                       fmt::format("{} could not be loaded: {}", entry.spec.name, reason)});
  }

  // Unloads models that were not used for long enough, and kills processes that do not end.
  void end_idle() REQUIRES(mutex_) {
    const TimePoint now = steady_clock::now();
    for (Entry& entry : entries_) {
      const bool is_expired =
          entry.keep_alive && entry.waiters.empty() && now >= entry.last_used + *entry.keep_alive;
      if (is_idle(entry) && (is_expired || entry.must_unload || entry.is_yielding))
        begin_end(entry);
      // A load without requests delays those of other models.
      const bool is_abandoned = entry.state == ModelState::kLoading && entry.waiters.empty();
      if (is_abandoned && (entry.must_unload || has_long_wait(now))) begin_end(entry);
      if (is_stopping_ && entry.child && entry.state != ModelState::kUnloading) begin_end(entry);
      if (!entry.child || entry.is_killed || !hangs(entry, now)) continue;
      log::error("{}: the model's process hangs and is killed", entry.spec.name);
      entry.is_killed = true;
      entry.child->send_signal(SIGKILL);
    }
  }

  bool hangs(const Entry& entry, TimePoint now) const {
    if (entry.state == ModelState::kUnloading) return now >= entry.end_by;
    return entry.state == ModelState::kLoaded && now >= entry.last_sign + options_.hang_time;
  }

  // Returns whether a request has waited long for a model that is not being loaded.
  bool has_long_wait(TimePoint now) const REQUIRES(mutex_) {
    return std::ranges::any_of(entries_, [&](const Entry& e) {
      return e.state == ModelState::kUnloaded && has_waiting(e) &&
             now >= e.waits_since + options_.patience;
    });
  }

  void begin_end(Entry& entry) REQUIRES(mutex_) {
    entry.state = ModelState::kUnloading;
    entry.keep_alive = entry.spec.keep_alive;  // a request that comes from now on may set another
    entry.end_by = steady_clock::now() + options_.end_time;
    entry.child->send_signal(SIGTERM);
  }

  // Returns the model whose requests have waited longest and that is not being loaded; null: none.
  Entry* next_to_load() REQUIRES(mutex_) {
    Entry* next = nullptr;
    for (Entry& entry : entries_) {
      const bool can_load = entry.state == ModelState::kUnloaded;
      if (!can_load || !has_waiting(entry)) continue;
      if (!next || entry.waits_since < next->waits_since) next = &entry;
    }
    return next;
  }

  // Starts the next model, or frees memory for it.
  void schedule() REQUIRES(mutex_) {
    const auto is_loading = [](const Entry& e) { return e.state == ModelState::kLoading; };
    if (std::ranges::any_of(entries_, is_loading)) return;
    Entry* const next = next_to_load();
    if (!next || !next->is_planned) return;  // plan_next()
    if (next->launch->planned_bytes > options_.memory_bytes) {
      return set_failed(*next,
                        {ErrorCode::kExhausted,
                         fmt::format("{} needs {} of memory, and --memory is {}", next->spec.name,
                                     format_bytes(next->launch->planned_bytes),
                                     format_bytes(options_.memory_bytes))});
    }
    if (next->launch->planned_bytes + next->kept_bytes > options_.memory_bytes) drop_kept(*next);
    const uint64_t needed = next->launch->planned_bytes + next->kept_bytes;
    uint64_t used = 0, used_later = 0;  // now, and when the processes that are ending have ended
    std::vector<EvictableMemory> evictable;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (&entry == next) continue;
      const uint64_t n_process = entry.child ? entry.launch->planned_bytes : 0;
      const bool is_ending = entry.state == ModelState::kUnloading;
      used += n_process + entry.kept_bytes;
      used_later += (is_ending ? 0 : n_process) + entry.kept_bytes;
      if (is_idle(entry))
        evictable.push_back(
            {.model = i, .is_loaded = true, .n_bytes = n_process, .last_used = entry.last_used});
      if (!entry.child && entry.kept_bytes > 0)
        evictable.push_back({.model = i,
                             .is_loaded = false,
                             .n_bytes = entry.kept_bytes,
                             .last_used = entry.last_used});
    }
    if (used + needed <= options_.memory_bytes) return launch(*next);
    if (used_later + needed <= options_.memory_bytes) return;  // memory is being freed
    const uint64_t missing = used_later + needed - options_.memory_bytes;
    const auto evictions = choose_evictions(std::move(evictable), missing);
    if (!evictions) return make_one_yield(*next);
    for (const EvictableMemory& eviction : *evictions) evict(entries_[eviction.model], eviction);
    schedule();
  }

  void evict(Entry& entry, const EvictableMemory& eviction) REQUIRES(mutex_) {
    if (eviction.is_loaded) return begin_end(entry);
    drop_kept(entry);
  }

  void drop_kept(Entry& entry) REQUIRES(mutex_) {
    log::info("{}: {} of KV pages dropped to free memory", entry.spec.name,
              format_bytes(entry.kept_bytes));
    std::error_code ignored;
    std::filesystem::remove_all(entry.launch->kept_folder, ignored);
    entry.kept_bytes = 0;
  }

  // Lets the model that has been loaded longest take no new requests, if this one has waited long.
  void make_one_yield(Entry& waiting) REQUIRES(mutex_) {
    if (steady_clock::now() < waiting.waits_since + options_.patience) return;
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.is_yielding) return;
      if (entry.state != ModelState::kLoaded) continue;
      if (!oldest || entry.loaded_at < oldest->loaded_at) oldest = &entry;
    }
    if (oldest) oldest->is_yielding = true;
  }

  void launch(Entry& entry) REQUIRES(mutex_) {
    entry.is_planned = false;
    entry.progress = 0;
    entry.status.clear();
    entry.load_begin = steady_clock::now();
    const auto socket = options_.listen();
    if (!socket) return set_failed(entry, socket.error());
    // Only the child keeps the socket: when it ends, connections are refused.
    const FileDescriptor listening(socket->fd);
    std::vector<std::string> variables = entry.launch->variables;
    const auto hang_time = std::chrono::floor<std::chrono::microseconds>(options_.hang_time);
    variables.push_back(fmt::format("WATCHDOG_USEC={}", hang_time.count()));
    auto child = ModelProcess::start(entry.launch->arguments, std::move(variables), listening);
    if (!child) return set_failed(entry, child.error());
    entry.child = std::move(*child);
    entry.port = socket->port;
    entry.state = ModelState::kLoading;
    log::info("{}: loading (process {}, port {})", entry.spec.name, entry.child->pid(), entry.port);
    notify(entry);
  }

  // Plans the next model if that has not been done, without the mutex because it reads files.
  // Returns whether it did.
  bool plan_next() {
    Entry* next = nullptr;
    {
      const MutexLock lock(mutex_);
      next = is_stopping_ ? nullptr : next_to_load();
      if (!next || next->is_planned) return false;
    }
    Result<ModelLaunch> launch = options_.plan(next->spec);  // the spec never changes
    const MutexLock lock(mutex_);
    if (!launch) {
      set_failed(*next, launch.error());
      return true;
    }
    if (next->launch && next->launch->kept_folder != launch->kept_folder) drop_kept(*next);
    next->launch = std::move(*launch);
    next->is_planned = true;
    return true;
  }

  TimePoint next_time() REQUIRES(mutex_) {
    TimePoint next = steady_clock::now() + kLongestSleep;
    for (const Entry& entry : entries_) {
      if (entry.state == ModelState::kUnloading && !entry.is_killed)
        next = std::min(next, entry.end_by);
      if (entry.state == ModelState::kLoaded && !entry.is_killed)
        next = std::min(next, entry.last_sign + options_.hang_time);
      if (entry.state == ModelState::kLoaded && entry.waiters.empty() && entry.keep_alive)
        next = std::min(next, entry.last_used + *entry.keep_alive);
      if (entry.state == ModelState::kUnloaded && has_waiting(entry))
        next = std::min(next, std::max(entry.waits_since + options_.patience,
                                       steady_clock::now() + std::chrono::milliseconds(200)));
    }
    return next;
  }

  ModelManagerOptions options_;
  FileDescriptor wake_fd_;
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::vector<std::function<void()>> calls_ GUARDED_BY(mutex_);  // to be made without the mutex
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class ModelManager::Impl::Use final : public ModelUse {
 public:
  Use(std::shared_ptr<Impl> impl, size_t index, std::shared_ptr<Waiter> waiter)
      : impl_(std::move(impl)), index_(index), waiter_(std::move(waiter)) {}

  ~Use() override {
    {
      const MutexLock lock(impl_->mutex_);
      Entry& entry = impl_->entries_[index_];
      std::erase(entry.waiters, waiter_);
      if (entry.state == ModelState::kLoaded) entry.last_used = steady_clock::now();
    }
    impl_->wake();
  }

  ModelReadiness readiness() const override {
    const MutexLock lock(impl_->mutex_);
    const Entry& entry = impl_->entries_[index_];
    ModelReadiness readiness{.state = entry.state,
                             .progress = entry.progress,
                             .port = std::nullopt,
                             .error = entry.error};
    if (waiter_->is_admitted && entry.state == ModelState::kLoaded) readiness.port = entry.port;
    return readiness;
  }

 private:
  const std::shared_ptr<Impl> impl_;
  const size_t index_;
  const std::shared_ptr<Waiter> waiter_;
};

std::unique_ptr<ModelUse> ModelManager::Impl::use(const std::string& name,
                                                  std::function<void()> on_change) {
  auto waiter =
      std::make_shared<Waiter>(Waiter{.is_admitted = false, .on_change = std::move(on_change)});
  size_t index = 0;
  {
    const MutexLock lock(mutex_);
    Entry& entry = *find(name);
    index = static_cast<size_t>(&entry - entries_.data());
    const TimePoint now = steady_clock::now();
    if (entry.state == ModelState::kFailed && now >= entry.retry_at) {
      entry.state = ModelState::kUnloaded;
      entry.error.reset();
    }
    if (!has_waiting(entry)) entry.waits_since = now;
    entry.last_used = now;
    const bool is_taken = entry.is_yielding || entry.must_unload;
    waiter->is_admitted = entry.state == ModelState::kLoaded && !is_taken;
    entry.waiters.push_back(waiter);
  }
  wake();
  return std::make_unique<Use>(shared_from_this(), index, std::move(waiter));
}

ModelManager::ModelManager(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelManager::~ModelManager() { impl_->stop(); }

Result<std::unique_ptr<ModelManager>> ModelManager::start(ModelManagerOptions options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  TRY(impl->start());
  return std::unique_ptr<ModelManager>(new ModelManager(std::move(impl)));
}

std::vector<ModelStatus> ModelManager::list() const { return impl_->list(); }
Result<std::string> ModelManager::resolve(std::string_view requested) const {
  return impl_->resolve(requested);
}
std::unique_ptr<ModelUse> ModelManager::use(const std::string& name,
                                            std::function<void()> on_change) {
  return impl_->use(name, std::move(on_change));
}
void ModelManager::set_keep_alive(const std::string& name, std::optional<Duration> keep_alive) {
  impl_->set_keep_alive(name, keep_alive);
}
void ModelManager::unload(const std::string& name) { impl_->unload(name); }

}  // namespace kvik
