#include "main/disk_options.h"

#include "main/model_options.h"

namespace kvik {

void DiskOptions::add_to(CLI::App& command) {
  command
      .add_option("--disk", folder,
                  "keep K and V in this folder too: found again after a restart (default: off)")
      ->type_name("DIR");
  add_bytes(command, "--disk-size", max_bytes,
            "what the folder may hold; the least recently used goes first (default: 20GiB)");
}

Result<std::unique_ptr<DiskTier>> DiskOptions::open() const {
  if (folder.empty()) return std::unique_ptr<DiskTier>();
  return DiskTier::open({.folder = folder, .max_bytes = max_bytes});
}

}  // namespace kvik
