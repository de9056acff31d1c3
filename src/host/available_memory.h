#pragma once

#include <cstdint>
#include <optional>

#include "base/process/control_groups.h"

namespace kvik {

// Returns the memory that is available without swapping, in bytes: of the machine, or of the
// process's control group or one above it if less is left there. std::nullopt if the system does
// not report it.
std::optional<uint64_t> available_memory_bytes(const SystemFolders& folders = {});

// Returns the memory of the machine, or the limit of the process's control group or of one above it
// if that is less.
std::optional<uint64_t> machine_memory_bytes(const SystemFolders& folders = {});

}  // namespace kvik
