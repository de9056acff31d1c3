#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"

namespace kvik {

// What a sweep of a shared folder found and did.
struct SweepCount {
  uint64_t n_files = 0;  // that stay
  uint64_t n_bytes = 0;
  uint64_t n_removed = 0;
};

// Keeps a folder that several machines mount below a size, and rids it of what nobody used for a
// month: files that were not used for longest go first. Only who holds the lease sweeps.
//
// The lease is a file that names its holder and counts up. Whoever sees it unchanged for minutes,
// by a clock of its own, takes it over: a machine that dies, or whose clock is wrong, keeps nobody
// from sweeping. Where two hold it for a moment both remove what is old, which does no harm. Ages
// are differences of times that the file system wrote.
//
// One thread.
class FolderSweep {
 public:
  // Files are those of the folder but for *.lease and *.key. Everything below an outdated folder,
  // in which names reveal tokens, is removed at any age.
  FolderSweep(std::string folder, uint64_t max_bytes, std::string outdated = {});

  // A bounded piece of the work: a few thousand files at most. What the sweep counted, when it
  // ends.
  std::optional<SweepCount> work();

  // For tests: sweeps at once, and takes over a lease that was unchanged for so long.
  void hurry(Duration lease_after);

 private:
  enum class Phase { kResting, kClaiming, kCounting, kRemoving };
  static constexpr size_t kBuckets = 256;

  bool holds_lease();
  bool write_lease();
  std::optional<std::string> read_lease() const;
  bool begin_walk();
  // Whether the walk came to its end.
  template <class Visit>
  bool walk(const Visit& visit);
  void count(const std::filesystem::directory_entry& entry);
  void choose_cutoff();
  void remove_old(const std::filesystem::directory_entry& entry);
  std::optional<double> age_s(const std::filesystem::directory_entry& entry) const;
  void rest();

  const std::string folder_;
  const uint64_t max_bytes_;
  const std::string outdated_;
  const std::string own_name_;
  Duration pause_ = std::chrono::minutes(1);
  Duration lease_after_ = std::chrono::minutes(5);

  Phase phase_ = Phase::kResting;
  TimePoint due_;
  uint64_t n_renewals_ = 0;
  std::string seen_lease_;  // of another, and since when
  TimePoint seen_since_;

  std::filesystem::recursive_directory_iterator at_;
  std::filesystem::file_time_type now_;            // of the file system
  std::array<uint64_t, kBuckets> bytes_by_age_{};  // logarithmic
  uint64_t bytes_to_free_ = 0;
  size_t oldest_kept_ = 0;  // bucket: older ones go
  SweepCount counted_;
};

}  // namespace kvik
