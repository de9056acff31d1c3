#include "host/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <vector>

namespace kvik {
namespace {

// The files of the memory controller in a version of control groups.
struct GroupFiles {
  std::string_view controller;          // its name; empty in version 2
  std::string_view limit, high, usage;  // high: beyond it the group is slowed down; empty: none
  std::string_view cache;  // key in memory.stat of the file cache that the system can drop
};
constexpr GroupFiles kVersions[] = {
    {"", "memory.max", "memory.high", "memory.current", "inactive_file"},
    {"memory", "memory.limit_in_bytes", "", "memory.usage_in_bytes", "total_inactive_file"},
};

// Returns the number after `key` in a file of lines "KEY NUMBER …".
std::optional<uint64_t> number_after(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  uint64_t number = 0;
  while (file >> name >> number) {
    if (name == key) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<uint64_t> meminfo_bytes(const SystemFolders& folders, std::string_view key) {
  const auto kib = number_after(folders.proc + "/meminfo", key);
  if (!kib) return std::nullopt;
  return *kib << 10;
}

// Returns the number that a file holds. "max" is not a number and means no limit.
std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

std::string file_in(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

// Returns the bytes that the group may still allocate; std::nullopt if it has no limit.
std::optional<uint64_t> left_in(const std::string& folder, const GroupFiles& files) {
  std::optional<uint64_t> limit = number_in(file_in(folder, files.limit));
  if (const auto high = number_in(file_in(folder, files.high))) {
    limit = std::min(limit.value_or(*high), *high);
  }
  const auto usage = number_in(file_in(folder, files.usage));
  if (!limit || !usage) return limit;
  const uint64_t cache = number_after(folder + "/memory.stat", files.cache).value_or(0);
  const uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

}  // namespace

std::optional<uint64_t> available_memory_bytes(const SystemFolders& folders) {
  std::optional<uint64_t> least = meminfo_bytes(folders, "MemAvailable:");
  for (const GroupFiles& files : kVersions) {
    for (const std::string& folder : control_group_folders(folders, files.controller)) {
      if (const auto left = left_in(folder, files)) least = std::min(least.value_or(*left), *left);
    }
  }
  return least;
}

std::optional<uint64_t> machine_memory_bytes(const SystemFolders& folders) {
  std::optional<uint64_t> least = meminfo_bytes(folders, "MemTotal:");
  for (const GroupFiles& files : kVersions) {
    for (const std::string& folder : control_group_folders(folders, files.controller)) {
      const auto limit = number_in(file_in(folder, files.limit));
      if (limit) least = std::min(least.value_or(*limit), *limit);
    }
  }
  return least;
}

}  // namespace kvik
