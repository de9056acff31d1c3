#include "tier/folder_sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEntriesAtOnce = 2000;
constexpr size_t kMaxLeaseBytes = 128;
constexpr double kTemporaryFileAge = 3600;  // seconds; the writer of an older draft is dead
constexpr double kMaxAge = 30.0 * 24 * 3600;
constexpr uint64_t kTargetPercent = 90;  // percent of the size limit to keep once it was exceeded
// buckets per doubling of the age in minutes: a month is bucket 123
constexpr double kBucketsPerDoubling = 8;

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

size_t bucket_of(double age_s, size_t n_buckets) {
  const double bucket = kBucketsPerDoubling * std::log2(1 + std::max(0.0, age_s) / 60);
  return std::min(n_buckets - 1, static_cast<size_t>(bucket));
}

bool is_own(const fs::path& path) {
  return path.extension() == ".lease" || path.extension() == ".key";
}

bool is_temporary(const fs::path& path) { return path.filename().native().starts_with('.'); }

}  // namespace

FolderSweep::FolderSweep(std::string folder, uint64_t max_bytes, std::string outdated)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      outdated_(std::move(outdated)),
      own_name_(random_name()),
      due_(std::chrono::steady_clock::now() + pause_) {}

void FolderSweep::set_lease_after_for_test(Duration lease_after) {
  pause_ = {};
  due_ = {};
  lease_after_ = lease_after;
}

std::optional<SweepCount> FolderSweep::work() {
  switch (phase_) {
    case Phase::kResting:
      if (std::chrono::steady_clock::now() < due_) return std::nullopt;
      if (!holds_lease()) {
        rest();
      } else if (write_lease()) {
        phase_ = Phase::kClaiming;
      }
      return std::nullopt;
    // a moment later, because another server may have taken it at the same time
    case Phase::kClaiming:
      if (holds_lease() && begin_walk()) {
        phase_ = Phase::kCounting;
      } else {
        rest();
      }
      return std::nullopt;
    case Phase::kCounting:
      if (!walk([this](const auto& entry) { count(entry); })) return std::nullopt;
      choose_cutoff();
      if (begin_walk()) {
        phase_ = Phase::kRemoving;
      } else {
        rest();
      }
      return std::nullopt;
    case Phase::kRemoving:
      if (!walk([this](const auto& entry) { remove_old(entry); })) return std::nullopt;
      rest();
      return counted_;
  }
  return std::nullopt;
}

void FolderSweep::rest() {
  phase_ = Phase::kResting;
  due_ = std::chrono::steady_clock::now() + pause_;
}

// --- the lease ---

std::optional<std::string> FolderSweep::read_lease() const {
  const std::string path = folder_ + "/sweep.lease";
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return std::nullopt;
  std::ifstream file(path);
  std::string text(kMaxLeaseBytes, '\0');
  file.read(text.data(), kMaxLeaseBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Returns true if the lease is ours, free, or was not renewed for a while.
bool FolderSweep::holds_lease() {
  const auto lease = read_lease();
  if (!lease || lease->starts_with(own_name_)) return true;
  const TimePoint now = std::chrono::steady_clock::now();
  if (*lease != seen_lease_) {
    seen_lease_ = *lease;
    seen_since_ = now;
  }
  return now - seen_since_ >= lease_after_ && phase_ == Phase::kResting;
}

bool FolderSweep::write_lease() {
  const std::string path = folder_ + "/sweep.lease";
  const std::string draft = fmt::format("{}/.{}.new", folder_, own_name_);
  std::error_code error;
  {
    std::ofstream file(draft, std::ios::trunc);
    fs::permissions(draft, fs::perms::owner_read | fs::perms::owner_write, error);
    file << fmt::format("{} {}\n", own_name_, ++n_renewals_);
    if (!file.flush()) return false;
  }
  fs::rename(draft, path, error);
  if (error) return false;
  now_ = fs::last_write_time(path, error);
  return !error;
}

// --- the walks ---

bool FolderSweep::begin_walk() {
  if (phase_ == Phase::kClaiming) {
    bytes_by_age_.fill(0);
    counted_ = {};
  }
  std::error_code error;
  at_ = fs::recursive_directory_iterator(folder_, fs::directory_options::skip_permission_denied,
                                         error);
  return !error;
}

template <class Visit>
bool FolderSweep::walk(const Visit& visit) {
  std::error_code error;
  for (size_t i = 0; i < kEntriesAtOnce; ++i) {
    if (at_ == fs::recursive_directory_iterator()) return true;
    const fs::directory_entry entry = *at_;
    at_.increment(error);  // advance first: the entry may be removed by `visit`
    visit(entry);
    if (error) return true;
  }
  return false;
}

std::optional<double> FolderSweep::age_s(const fs::directory_entry& entry) const {
  std::error_code error;
  if (!fs::is_regular_file(entry.symlink_status(error)) || error) return std::nullopt;
  const auto written = fs::last_write_time(entry.path(), error);
  if (error) return std::nullopt;
  return std::chrono::duration<double>(now_ - written).count();
}

void FolderSweep::count(const fs::directory_entry& entry) {
  const auto age = age_s(entry);
  std::error_code error;
  const uint64_t n_bytes = age ? entry.file_size(error) : 0;
  if (!age || error || is_own(entry.path())) return;
  bytes_by_age_[bucket_of(*age, kBuckets)] += n_bytes;
  ++counted_.n_files;
  counted_.n_bytes += n_bytes;
}

void FolderSweep::choose_cutoff() {
  const uint64_t leave = max_bytes_ / 100 * kTargetPercent;
  bytes_to_free_ = counted_.n_bytes > max_bytes_ ? counted_.n_bytes - leave : 0;
  oldest_kept_ = kBuckets;
  for (uint64_t freed = 0; oldest_kept_ > 0 && freed < bytes_to_free_;) {
    freed += bytes_by_age_[--oldest_kept_];
  }
}

// Removes old files. Of the newest bucket to remove, only as many as necessary.
void FolderSweep::remove_old(const fs::directory_entry& entry) {
  std::error_code error;
  if (fs::is_directory(entry.symlink_status(error))) {
    ::rmdir(entry.path().c_str());  // removes empty folders only; a writer creates them again
    return;
  }
  const auto age = age_s(entry);
  const uint64_t n_bytes = age ? entry.file_size(error) : 0;
  if (!age || error || is_own(entry.path())) return;
  const bool is_too_much = bytes_to_free_ > 0 && bucket_of(*age, kBuckets) >= oldest_kept_;
  const double max_age = is_temporary(entry.path()) ? kTemporaryFileAge : kMaxAge;
  const bool is_outdated = !outdated_.empty() && entry.path().native().starts_with(outdated_);
  if (!is_too_much && !is_outdated && *age < max_age) return;
  if (::unlink(entry.path().c_str()) != 0) return;
  bytes_to_free_ -= std::min(bytes_to_free_, n_bytes);
  ++counted_.n_removed;
  --counted_.n_files;
  counted_.n_bytes -= n_bytes;
}

}  // namespace kvik
