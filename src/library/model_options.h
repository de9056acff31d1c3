#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/instance.h"
#include "host/load_model.h"
#include "tier/disk_tier.h"

namespace kvik {

// The options of a model that another program loads.
struct LibraryOptions {
  ModelOptions model;
  ServingOptions serving;
  EngineOptions engine;
  std::string draft;                 // draft model; empty: none
  std::optional<uint64_t> kv_bytes;  // absent: chosen by choose_memory()
  std::optional<DiskTierOptions> disk;
};

// Reads the options of kvik_model_open(): a JSON object; empty: none. Errors: kInvalidArgument,
// which name the member and what was expected, also for a member that does not exist.
Result<LibraryOptions> read_library_options(std::string_view json);

}  // namespace kvik
