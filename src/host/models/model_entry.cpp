#include "host/models/model_entry.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "base/text/whole_number.h"
#include "host/models/folder_bytes.h"

namespace kvik {
namespace {

// A model whose process ends earlier is not started again at once.
constexpr std::chrono::seconds kStable{5};
constexpr std::chrono::seconds kRetryAfter{2};
constexpr std::chrono::seconds kRetryAtMost{60};
constexpr int kKilled = 128 + SIGKILL;  // exit code

}  // namespace

FileStamp file_stamp_of(const std::string& path) {
  namespace fs = std::filesystem;
  FileStamp stamp;
  const auto add = [&](const fs::path& file) {
    std::error_code failed;
    const auto changed = fs::last_write_time(file, failed);
    if (!failed) stamp.changed = std::max(stamp.changed, changed);
    const auto n_bytes = fs::file_size(file, failed);
    if (!failed) stamp.n_bytes += n_bytes;
  };
  add(path);
  std::error_code ignored;  // it is no folder
  for (fs::directory_iterator file(path, ignored), end; file != end; file.increment(ignored))
    add(file->path());
  return stamp;
}

bool ModelEntry::has_admitted() const {
  return std::ranges::any_of(waiters, [](const auto& w) { return w->is_admitted; });
}

bool ModelEntry::has_waiting() const {
  return std::ranges::any_of(waiters, [](const auto& w) { return !w->is_admitted; });
}

std::optional<TimePoint> ModelEntry::expires_at() const {
  const bool is_used = !waiters.empty() || has_background;
  if (state != ModelState::kLoaded || is_used || !keep_alive) return std::nullopt;
  return last_used + *keep_alive;
}

bool ModelEntry::is_stable(TimePoint now) const { return loaded_at + kStable < now; }

ModelStatus ModelEntry::shown(TimePoint now) const {
  ModelStatus out{.name = spec.name,
                  .aliases = spec.aliases,
                  .path = spec.path,
                  .state = is_idle() && must_unload ? ModelState::kUnloading : state,
                  .progress = progress,
                  .error = error,
                  .planned_bytes = launch ? launch->planned_bytes : 0,
                  .n_ctx = n_ctx,
                  .kept_bytes = kept_bytes,
                  .n_uses = static_cast<uint32_t>(waiters.size()),
                  .n_loads = n_loads,
                  .n_crashes = n_crashes,
                  .load_s = load_s,
                  .port = std::nullopt,
                  .unload_s = std::nullopt};
  if (state != ModelState::kLoaded) return out;
  out.port = port;
  if (const auto end = expires_at()) out.unload_s = std::max(0.0, to_s(*end - now));
  return out;
}

void ModelEntry::begin_load(TimePoint now) {
  is_planned = has_background = false;
  counters.clear();
  failure = ErrorCode::kUnavailable;
  progress = 0;
  status.clear();
  load_begin = last_sign = now;
}

Result<void> ModelEntry::start(const FileDescriptor& listening, uint16_t listening_port,
                               Duration hang_time) {
  const auto hang_us = std::chrono::floor<std::chrono::microseconds>(hang_time);
  std::vector<std::string> environment = launch->environment;
  environment.push_back(fmt::format("WATCHDOG_USEC={}", hang_us.count()));
  environment.push_back(fmt::format("LISTEN_FDNAMES={}", kRouterSocketName));
  const std::vector<std::string>& words = launch->arguments;
  TRY_ASSIGN(ModelProcess started,
             ModelProcess::start({.program = words.front(),
                                  .arguments = {words.begin() + 1, words.end()},
                                  .environment = std::move(environment)},
                                 listening));
  process.emplace(std::move(started));
  port = listening_port;
  state = ModelState::kLoading;
  return {};
}

void ModelEntry::set_loaded(TimePoint now) {
  state = ModelState::kLoaded;
  loaded_at = last_used = now;
  load_s = to_s(now - load_begin);
  ++n_loads;
}

void ModelEntry::set_failed(Error reason, TimePoint now) {
  constexpr uint32_t kMaxDoublings = 8;
  const auto pause = kRetryAfter * (1u << std::min(n_failures, kMaxDoublings));
  ++n_failures;
  retry_at = now + std::min<Duration>(pause, kRetryAtMost);
  state = ModelState::kFailed;
  error = std::move(reason);
}

void ModelEntry::retry_if_changed() { retry_if_due(TimePoint::min()); }

void ModelEntry::retry_if_due(TimePoint now) {
  if (state != ModelState::kFailed || is_removed) return;
  if (now < retry_at && file_stamp_of(spec.path) == file_stamp) return;
  state = ModelState::kUnloaded;
  error.reset();
}

Error ModelEntry::error_of_end(bool was_loading, const std::string& reason, TimePoint now) const {
  return {was_loading ? failure : ErrorCode::kUnavailable,
          fmt::format("{} {}: {}", spec.name, text_of_end(now), reason)};
}

std::string ModelEntry::reason_of_end(int exit_code) const {
  if (const std::string_view reason = failure_in(status); !reason.empty())
    return std::string(reason);
  const std::string end = exit_text(exit_code);
  if (is_killed) return fmt::format("its process hung and was ended with {}", end);
  if (exit_code == kKilled)
    return fmt::format(
        "its process was ended from outside with {}, as the system does when memory runs out", end);
  return fmt::format("its process ended with {}", end);
}

std::string ModelEntry::text_of_end(TimePoint now) const {
  if (loaded_at < load_begin) return "could not be loaded";
  return fmt::format("ended {:.1f} s after it was loaded", to_s(now - loaded_at));
}

void ModelEntry::measure_kept() {
  if (launch && !launch->kept_folder.empty()) kept_bytes = folder_bytes(launch->kept_folder);
}

void ModelEntry::trim_kept(uint64_t n_bytes, const TrimKept& trim) {
  const uint64_t before = kept_bytes;
  if (n_bytes == 0 || !trim) return drop_kept();
  const Result<void> done = trim(launch->kept_folder, n_bytes);
  if (!done) log::warn("{}: {}", spec.name, done.error().message);
  measure_kept();
  if (kept_bytes > n_bytes) return drop_kept();
  log::info("{}: {} of {} of KV pages dropped", spec.name, format_bytes(before - kept_bytes),
            format_bytes(before));
}

void ModelEntry::drop_kept() {
  if (launch->kept_folder.empty()) return;
  if (kept_bytes > 0) log::info("{}: {} of KV pages dropped", spec.name, format_bytes(kept_bytes));
  std::error_code ignored;
  std::filesystem::remove_all(launch->kept_folder, ignored);
  kept_bytes = 0;  // also if that failed: nothing more can be freed
}

bool ModelEntry::take_message(const std::string& name, const std::string& value, TimePoint now) {
  last_sign = now;
  if (name == "STATUS") {
    status = value;
    if (const auto share = loaded_share(value)) progress = *share;
  }
  constexpr size_t kMaxCounterBytes = size_t{4} << 20;
  if (name == kCountersVariable && counters.size() + value.size() < kMaxCounterBytes)
    counters += value + '\n';
  if (name == kErrorVariable) {
    const auto number = parse_whole_number(value);
    constexpr auto kLast = static_cast<uint64_t>(ErrorCode::kIo);
    if (number && *number <= kLast) failure = static_cast<ErrorCode>(*number);
  }
  if (name == kBackgroundVariable) {
    has_background = value != "0";
    last_used = now;
  }
  if (name == kContextVariable) std::from_chars(value.data(), value.data() + value.size(), n_ctx);
  return name == "READY" && value == "1" && state == ModelState::kLoading;
}

}  // namespace kvik
