#pragma once

#include <cstdint>

#include "base/process/control_groups.h"

namespace kvik {

// Returns the number of processors (hardware threads) on which this process may run.
uint32_t usable_processors();

// Returns the number of physical cores on which this process may run, but no more than its control
// groups give it time for (cpu.max), and at least 1. A second hardware thread of a core shares its
// arithmetic and its caches, and a group that uses up its time is stopped until the next period.
uint32_t usable_cores(const SystemFolders& folders = {});

}  // namespace kvik
