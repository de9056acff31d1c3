#include "host/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace kvik {
namespace {

std::optional<uint64_t> meminfo_bytes(const std::string& wanted) {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  while (meminfo >> name >> kib) {
    if (name == wanted) return kib << 10;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> available_memory_bytes() { return meminfo_bytes("MemAvailable:"); }

std::optional<uint64_t> machine_memory_bytes() {
  std::optional<uint64_t> least = meminfo_bytes("MemTotal:");
  // The limits of a container, at the paths that are visible inside it (cgroup v2 and v1). "max" is
  // not a number and means no limit.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(path) >> limit) least = std::min(least.value_or(limit), limit);
  }
  return least;
}

}  // namespace kvik
