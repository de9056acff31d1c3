#include "base/process/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace kvik {
namespace {

// Returns the processors of the core to which a processor belongs, as a list such as "0,4". If the
// system does not tell, each processor counts as a core.
std::string core_of(const SystemFolders& folders, size_t processor) {
  const std::string folder = folders.processors + "/cpu" + std::to_string(processor) + "/topology/";
  for (const char* const name : {"core_cpus_list", "thread_siblings_list"}) {  // since 5.3, before
    std::string list;
    if (std::ifstream(folder + name) >> list) return list;
  }
  return std::to_string(processor);
}

// Returns the processors that a group may use, from its time in each period. std::nullopt if it has
// no limit: "max", or -1 in version 1.
std::optional<double> processors_of(double time, double period) {
  if (time <= 0 || period <= 0) return std::nullopt;
  return time / period;
}

std::optional<double> processors_of_group(const std::string& folder) {
  double time = 0, period = 0;
  std::ifstream(folder + "/cpu.max") >> time >> period;
  return processors_of(time, period);
}

std::optional<double> processors_of_old_group(const std::string& folder) {
  double time = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> time;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return processors_of(time, period);
}

}  // namespace

uint32_t usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

uint32_t usable_cores(const SystemFolders& folders) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return usable_processors();
  std::set<std::string> cores;
  for (size_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.insert(core_of(folders, i));
  }
  double least = static_cast<double>(cores.size());
  for (const std::string& folder : control_group_folders(folders, "")) {
    least = std::min(least, processors_of_group(folder).value_or(least));
  }
  for (const std::string& folder : control_group_folders(folders, "cpu")) {
    least = std::min(least, processors_of_old_group(folder).value_or(least));
  }
  return std::max(1u, static_cast<uint32_t>(least));
}

}  // namespace kvik
