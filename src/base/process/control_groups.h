#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// The folders in which the system reports on processes, control groups and devices; tests have
// their own.
struct SystemFolders {
  std::string proc = "/proc";
  std::string groups = "/sys/fs/cgroup";
  std::string processors = "/sys/devices/system/cpu";
};

// Returns the folders of the process's control group and of all groups above it, the root first.
// `controller` is its name in /proc/self/cgroup, such as "memory"; empty for groups of version 2.
// Inside a container the path may be a path on the host, which does not exist there.
std::vector<std::string> control_group_folders(const SystemFolders& folders,
                                               std::string_view controller);

}  // namespace kvik
