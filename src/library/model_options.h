#pragma once

#include <boost/json/object.hpp>
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

// Parses options of a function of the library: a JSON object; empty: none. Errors:
// kInvalidArgument.
Result<boost::json::object> parse_options(std::string_view json);

// Reads the options of kvik_model_open(). Errors: those of parse_options(); kInvalidArgument, which
// name the member and what was expected, also for a member that does not exist.
Result<LibraryOptions> read_library_options(std::string_view json);

// Returns a message of the layers below, which name the program's flags, with the names of the
// library's options in their place.
std::string in_library_terms(std::string_view message);

}  // namespace kvik
