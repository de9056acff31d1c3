#include "base/process/control_groups.h"

#include <fstream>

namespace kvik {
namespace {

// Returns the path of the process's group, such as "/user.slice/a"; empty for the root, or if it is
// not known.
std::string own_group(const SystemFolders& folders, std::string_view controller) {
  std::ifstream groups(folders.proc + "/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "4:memory:/a", "3:cpu,cpuacct:/a", "0::/a"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names.find("," + std::string(controller) + ",") == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    return path == "/" ? "" : path;
  }
  return "";
}

}  // namespace

std::vector<std::string> control_group_folders(const SystemFolders& folders,
                                               std::string_view controller) {
  std::string root = folders.groups;
  if (!controller.empty()) root += "/" + std::string(controller);
  std::vector<std::string> found = {root};
  const std::string group = own_group(folders, controller);
  for (size_t end = group.find('/', 1); !group.empty(); end = group.find('/', end + 1)) {
    found.push_back(root + group.substr(0, end));
    if (end == std::string::npos) break;
  }
  return found;
}

}  // namespace kvik
