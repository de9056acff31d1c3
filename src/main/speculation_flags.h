#pragma once

#include <string>
#include <vector>

#include "engine/speculate/speculation_options.h"
#include "main/flags.h"

namespace kvik {

// Parses the value of --speculate: auto, off, or the number of draft tokens per step. Returns an
// error message, empty on success.
std::string read_speculation(const std::string& text, SpeculationOptions& options);

// The flags --speculate and --draft.
struct SpeculationFlags {
  SpeculationOptions options;
  std::string draft;  // draft model; empty: none

  void add_to(Flags& flags);
};

}  // namespace kvik
