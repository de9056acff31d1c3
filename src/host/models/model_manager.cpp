#include "host/models/model_manager.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process/thread.h"
#include "base/quantity.h"
#include "host/models/evictions.h"
#include "host/models/model_entry.h"
#include "host/models/model_list.h"
#include "host/models/model_names.h"

namespace kvik {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestSleep{60};

}  // namespace

// Shared by the manager and its uses.
class ModelManager::Impl : public std::enable_shared_from_this<ModelManager::Impl> {
 public:
  explicit Impl(ModelManagerOptions options) : options_(std::move(options)) {
    const MutexLock lock(mutex_);
    update_models(entries_, options_.models);
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
    refresh();
    const MutexLock lock(mutex_);
    std::vector<ModelStatus> all;
    for (const EntryPtr& entry : entries_) {
      entry->retry_if_changed();
      if (!entry->is_removed) all.push_back(entry->shown(steady_clock::now()));
    }
    return all;
  }

  Result<std::string> resolve(std::string_view requested) {
    refresh();
    const MutexLock lock(mutex_);
    std::vector<const ModelSpec*> specs;
    const Entry* last_used = nullptr;
    for (const EntryPtr& entry : entries_) {
      if (entry->is_removed) continue;
      specs.push_back(&entry->spec);
      if (!last_used || entry->last_used > last_used->last_used) last_used = entry.get();
    }
    if (requested.empty() && last_used) return last_used->spec.name;
    TRY_ASSIGN(const ModelSpec* const spec, find_model(specs, requested));
    return spec->name;
  }

  class Use;
  std::unique_ptr<ModelUse> use(const std::string& name, std::function<void()> on_change);

  void set_keep_alive(const std::string& name, std::optional<Duration> keep_alive) {
    {
      const MutexLock lock(mutex_);
      if (const EntryPtr entry = find(name)) entry->keep_alive = keep_alive;
    }
    wake();
  }

  void end_pause(const std::string& name) {
    const MutexLock lock(mutex_);
    if (const EntryPtr entry = find(name)) entry->retry_at = TimePoint();
  }

  void unload(const std::string& name) {
    {
      const MutexLock lock(mutex_);
      if (const EntryPtr entry = find(name); entry && entry->process) {
        entry->must_unload = true;
        entry->keep_alive = entry->spec.keep_alive;
      }
    }
    wake();
  }

 private:
  using Entry = ModelEntry;
  using EntryPtr = std::shared_ptr<ModelEntry>;
  using Waiter = ModelWaiter;

  // --- state, under the mutex ---

  // Returns the model of that name; null: none.
  EntryPtr find(std::string_view name) REQUIRES(mutex_) {
    for (const EntryPtr& entry : entries_)
      if (!entry->is_removed && entry->spec.name == name) return entry;
    return nullptr;
  }

  // Takes the list of models anew if it has changed.
  void refresh() {
    if (!options_.changed_models) return;
    const MutexLock refresh_lock(refresh_mutex_);  // a later list must not be replaced by this one
    auto models = options_.changed_models();
    if (!models) return;
    {
      const MutexLock lock(mutex_);
      update_models(entries_, std::move(*models));
    }
    wake();
  }

  // Forgets models that have left the list, once nothing of them runs.
  void forget_removed() REQUIRES(mutex_) {
    std::erase_if(entries_, [&](const EntryPtr& entry) REQUIRES(mutex_) {
      if (!entry->is_removed || entry->process || !entry->waiters.empty()) return false;
      if (entry->kept_bytes > 0) entry->drop_kept();
      return true;
    });
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
    entry.set_failed(std::move(error), steady_clock::now());
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
        forget_removed();
        if (!is_stopping_) schedule();
        until = next_time();
        calls.swap(calls_);
        is_over = is_stopping_ && std::ranges::none_of(entries_, [](const EntryPtr& e) {
                    return e->process.has_value();
                  });
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
      for (const EntryPtr& entry : entries_) {
        if (!entry->process) continue;
        fds.push_back({.fd = entry->process->child().end_fd(), .events = POLLIN, .revents = 0});
        fds.push_back({.fd = entry->process->message_fd(), .events = POLLIN, .revents = 0});
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    uint64_t ignored = 0;
    static_cast<void>(!read(wake_fd_.get(), &ignored, sizeof ignored));
  }

  void read_processes() REQUIRES(mutex_) {
    const TimePoint now = steady_clock::now();
    for (const EntryPtr& pointer : entries_) {
      Entry& entry = *pointer;
      if (!entry.process) continue;
      const double progress = entry.progress;
      const auto exit_code = entry.process->child().exit_code();  // before its last messages
      size_t n_messages = 0;
      do {
        const auto messages = entry.process->take_messages();
        n_messages = messages.size();
        for (const auto& [name, value] : messages) {
          if (entry.take_message(name, value, now)) set_loaded(entry, now);
        }
      } while (exit_code && n_messages > 0);
      if (entry.progress != progress) notify(entry);
      if (exit_code) take_end(entry, *exit_code);
    }
  }

  void set_loaded(Entry& entry, TimePoint now) REQUIRES(mutex_) {
    entry.set_loaded(now);
    log::info("{}: loaded in {:.1f} s", entry.spec.name, entry.load_s);
    admit_all(entry);
  }

  void take_end(Entry& entry, int exit_code) REQUIRES(mutex_) {
    entry.process.reset();
    const std::string reason = entry.reason_of_end(exit_code);
    if (options_.on_end) options_.on_end(entry.spec.name, entry.n_loads, entry.counters);
    entry.is_yielding = entry.must_unload = entry.is_killed = false;
    const ModelState before = std::exchange(entry.state, ModelState::kUnloaded);
    entry.measure_kept();
    if (before == ModelState::kUnloading || is_stopping_) {
      if (entry.loaded_at >= entry.load_begin) entry.n_failures = 0;
      log::info("{}: unloaded, {} of KV pages kept", entry.spec.name,
                format_bytes(entry.kept_bytes));
      return;
    }
    // A load that fails twice may do so because of the pages.
    if (before == ModelState::kLoading && entry.n_failures > 0) entry.drop_kept();
    for (const auto& waiter : entry.waiters) waiter->is_admitted = false;
    entry.waits_since = steady_clock::now();
    const bool was_loaded = before == ModelState::kLoaded;
    if (was_loaded) ++entry.n_crashes;
    if (was_loaded && entry.is_stable(steady_clock::now())) {
      log::error("{}: {}; the next request starts it again", entry.spec.name, reason);
      entry.n_failures = 0;
      notify(entry);
      return;
    }
    set_failed(entry, entry.error_of_end(!was_loaded, reason, steady_clock::now()));
  }

  // Unloads models that were not used for long enough, and kills processes that do not end.
  void end_idle() REQUIRES(mutex_) {
    const TimePoint now = steady_clock::now();
    for (const EntryPtr& pointer : entries_) {
      Entry& entry = *pointer;
      const auto expires_at = entry.expires_at();
      const bool is_expired = expires_at && now >= *expires_at;
      if (entry.is_idle() && (is_expired || entry.must_unload || entry.is_yielding))
        begin_end(entry);
      // A load without requests delays those of other models.
      const bool is_abandoned = entry.state == ModelState::kLoading && entry.waiters.empty();
      if (is_abandoned &&
          (entry.must_unload || has_waiting_since(entries_, now - options_.patience)))
        begin_end(entry);
      if (is_stopping_ && entry.process && entry.state != ModelState::kUnloading) begin_end(entry);
      if (!entry.process || entry.is_killed || now < hangs_at(entry)) continue;
      log::error("{}: the model's process hangs and is killed", entry.spec.name);
      entry.is_killed = true;
      entry.process->child().send(SIGKILL);
    }
  }

  // Returns when the process of a model counts as hanging, if it sends no message before.
  TimePoint hangs_at(const Entry& entry) const {
    if (entry.state == ModelState::kUnloading) return entry.end_by;
    const bool is_loading = entry.state == ModelState::kLoading;
    return entry.last_sign + (is_loading ? options_.load_hang_time : options_.hang_time);
  }

  // Returns when a load no longer keeps those of other models waiting, if it sends no message.
  TimePoint stalls_at(const Entry& entry) const { return entry.last_sign + options_.stall_time; }

  void begin_end(Entry& entry) REQUIRES(mutex_) {
    entry.state = ModelState::kUnloading;
    // A request that comes from now on, or has come since unload(), may set another.
    if (!entry.must_unload) entry.keep_alive = entry.spec.keep_alive;
    entry.end_by = steady_clock::now() + options_.end_time;
    entry.process->child().send(SIGTERM);
  }

  // Returns the model whose requests have waited longest and that is not being loaded; null: none.
  Entry* next_to_load() REQUIRES(mutex_) {
    Entry* next = nullptr;
    for (const EntryPtr& entry : entries_) {
      if (entry->state != ModelState::kUnloaded || !entry->has_waiting()) continue;
      if (!next || entry->waits_since < next->waits_since) next = entry.get();
    }
    return next;
  }

  // Starts the next model, or frees memory for it.
  void schedule() REQUIRES(mutex_) {
    const TimePoint now = steady_clock::now();
    const auto is_progressing = [&](const EntryPtr& e) {
      return e->state == ModelState::kLoading && now < stalls_at(*e);
    };
    if (std::ranges::any_of(entries_, is_progressing)) return;
    Entry* const next = next_to_load();
    if (!next || !next->is_planned) return;  // plan_next()
    if (next->launch->planned_bytes > options_.memory_bytes) {
      return set_failed(*next,
                        {ErrorCode::kExhausted,
                         fmt::format("{} needs {} of memory, and --memory is {}", next->spec.name,
                                     format_bytes(next->launch->planned_bytes),
                                     format_bytes(options_.memory_bytes))});
    }
    const uint64_t room = options_.memory_bytes - next->launch->planned_bytes;
    if (next->kept_bytes > room) next->trim_kept(room, options_.trim_kept);
    const uint64_t needed = next->launch->planned_bytes + next->kept_bytes;
    MemoryUse use = memory_beside(entries_, *next);
    if (use.n_bytes + needed <= options_.memory_bytes) return launch(*next);
    if (use.n_bytes_later + needed <= options_.memory_bytes) return;  // memory is being freed
    const uint64_t missing = use.n_bytes_later + needed - options_.memory_bytes;
    const auto evictions = choose_evictions(std::move(use.evictable), missing);
    if (!evictions) return make_one_yield(*next);
    for (const EvictableMemory& eviction : *evictions) {
      Entry& entry = *entries_[eviction.model];
      if (eviction.is_loaded)
        begin_end(entry);
      else
        entry.trim_kept(entry.kept_bytes - eviction.n_bytes, options_.trim_kept);
    }
    schedule();
  }

  // Lets the model that has been loaded longest take no new requests, if this one has waited long.
  void make_one_yield(Entry& waiting) REQUIRES(mutex_) {
    if (steady_clock::now() < waiting.waits_since + options_.patience) return;
    Entry* oldest = nullptr;
    for (const EntryPtr& pointer : entries_) {
      Entry& entry = *pointer;
      if (entry.is_yielding) return;
      if (entry.state != ModelState::kLoaded) continue;
      if (!oldest || entry.loaded_at < oldest->loaded_at) oldest = &entry;
    }
    if (oldest) oldest->is_yielding = true;
  }

  void launch(Entry& entry) REQUIRES(mutex_) {
    entry.begin_load(steady_clock::now());
    // Only the child keeps the socket: when it ends, connections are refused.
    const auto listening = options_.listen();
    if (!listening) return set_failed(entry, listening.error());
    const auto started = entry.start(listening->socket, listening->port, options_.hang_time);
    if (!started) return set_failed(entry, started.error());
    log::info("{}: loading (process {}, port {})", entry.spec.name, entry.process->child().pid(),
              entry.port);
    notify(entry);
  }

  // Plans the next model if that has not been done, without the mutex because it reads files.
  // Returns whether it did.
  bool plan_next() {
    Entry* next = nullptr;
    ModelSpec spec;
    {
      const MutexLock lock(mutex_);
      next = is_stopping_ ? nullptr : next_to_load();
      if (!next || next->is_planned) return false;
      spec = next->spec;
      next->file_stamp = file_stamp_of(spec.path);
    }
    Result<ModelLaunch> launch = options_.plan(spec);
    const MutexLock lock(mutex_);
    if (!launch) {
      set_failed(*next, {launch.error().code, fmt::format("{} could not be loaded: {}", spec.name,
                                                          launch.error().message)});
      return true;
    }
    if (next->launch && next->launch->kept_folder != launch->kept_folder) next->drop_kept();
    next->launch = std::move(*launch);
    next->is_planned = true;
    return true;
  }

  TimePoint next_time() REQUIRES(mutex_) {
    const TimePoint now = steady_clock::now();
    TimePoint next = now + kLongestSleep;
    for (const EntryPtr& pointer : entries_) {
      const Entry& entry = *pointer;
      if (entry.process && !entry.is_killed) next = std::min(next, hangs_at(entry));
      if (const auto end = entry.expires_at()) next = std::min(next, *end);
      const TimePoint stalls = stalls_at(entry);
      if (entry.state == ModelState::kLoading && stalls > now) next = std::min(next, stalls);
      if (entry.state == ModelState::kUnloaded && entry.has_waiting())
        next = std::min(next, std::max(entry.waits_since + options_.patience,
                                       now + std::chrono::milliseconds(200)));
    }
    return next;
  }

  const ModelManagerOptions options_;
  FileDescriptor wake_fd_;
  Mutex mutex_;
  Mutex refresh_mutex_;                                          // locked before mutex_
  std::vector<EntryPtr> entries_ GUARDED_BY(mutex_);             // those that were removed are last
  std::vector<std::function<void()>> calls_ GUARDED_BY(mutex_);  // to be made without the mutex
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class ModelManager::Impl::Use final : public ModelUse {
 public:
  Use(std::shared_ptr<Impl> impl, EntryPtr entry, std::shared_ptr<Waiter> waiter)
      : impl_(std::move(impl)), entry_(std::move(entry)), waiter_(std::move(waiter)) {}

  ~Use() override {
    {
      const MutexLock lock(impl_->mutex_);
      std::erase(entry_->waiters, waiter_);
      if (entry_->state == ModelState::kLoaded) entry_->last_used = steady_clock::now();
    }
    impl_->wake();
  }

  ModelReadiness readiness() const override {
    const MutexLock lock(impl_->mutex_);
    ModelReadiness readiness{.state = entry_->state,
                             .progress = entry_->progress,
                             .n_loads = entry_->n_loads,
                             .port = std::nullopt,
                             .error = entry_->error};
    if (waiter_->is_admitted && entry_->state == ModelState::kLoaded) readiness.port = entry_->port;
    return readiness;
  }

 private:
  const std::shared_ptr<Impl> impl_;
  const EntryPtr entry_;
  const std::shared_ptr<Waiter> waiter_;
};

std::unique_ptr<ModelUse> ModelManager::Impl::use(const std::string& name,
                                                  std::function<void()> on_change) {
  auto waiter =
      std::make_shared<Waiter>(Waiter{.is_admitted = false, .on_change = std::move(on_change)});
  EntryPtr found;
  {
    const MutexLock lock(mutex_);
    found = find(name);
    if (!found) found = removed_model(name);
    Entry& entry = *found;
    const TimePoint now = steady_clock::now();
    entry.retry_if_due(now);
    if (!entry.has_waiting()) entry.waits_since = now;
    entry.last_used = now;
    const bool is_taken = entry.is_yielding || entry.must_unload;
    waiter->is_admitted = entry.state == ModelState::kLoaded && !is_taken;
    entry.waiters.push_back(waiter);
  }
  wake();
  return std::make_unique<Use>(shared_from_this(), std::move(found), std::move(waiter));
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
void ModelManager::end_pause(const std::string& name) { impl_->end_pause(name); }
void ModelManager::unload(const std::string& name) { impl_->unload(name); }

}  // namespace kvik
