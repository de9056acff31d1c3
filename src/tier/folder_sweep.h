#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"

namespace kvik {

// Result of a sweep of a shared folder.
struct SweepCount {
  uint64_t n_files = 0;  // files that remain
  uint64_t n_bytes = 0;
  uint64_t n_removed = 0;
};

// Keeps a folder that several machines mount below a size limit by removing the least recently used
// files, and removes files that were not used for a month. Only the holder of the lease sweeps.
//
// The lease is a file that names its holder and contains a counter. A server that sees it unchanged
// for minutes, by its own clock, takes it over, so that neither a dead machine nor one with a wrong
// clock prevents sweeps. If two servers hold the lease for a moment, both remove old files, which
// does no harm. Ages are differences of times that the file system wrote.
//
// One thread.
class FolderSweep {
 public:
  // Sweeps all files of the folder except *.lease and *.key. Names in the folder `outdated` reveal
  // tokens, so everything in it is removed at any age.
  FolderSweep(std::string folder, uint64_t max_bytes, std::string outdated = {});

  // Does a bounded part of the work, at most a few thousand files. Returns the counts when the
  // sweep is complete.
  std::optional<SweepCount> work();

  // For tests: sweeps at once, and takes over a lease that was unchanged for `lease_after`.
  void set_lease_after_for_test(Duration lease_after);

 private:
  enum class Phase { kResting, kClaiming, kCounting, kRemoving };
  static constexpr size_t kBuckets = 256;

  bool holds_lease();
  bool write_lease();
  std::optional<std::string> read_lease() const;
  bool begin_walk();
  // Returns whether the walk is complete.
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
  std::string seen_lease_;  // lease of another server, and since when it is unchanged
  TimePoint seen_since_;

  std::filesystem::recursive_directory_iterator at_;
  std::filesystem::file_time_type now_;            // current time of the file system
  std::array<uint64_t, kBuckets> bytes_by_age_{};  // on a logarithmic scale
  uint64_t bytes_to_free_ = 0;
  size_t oldest_kept_ = 0;  // bucket; files in older buckets are removed
  SweepCount counted_;
};

}  // namespace kvik
