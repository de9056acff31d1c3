#pragma once

#include <string>
#include <vector>

#include "engine/speculate/speculation_options.h"
#include "main/flags.h"

namespace kvik {

// What stands behind --speculate: auto, off, or how many tokens to guess wherever there is one.
// What is wrong with it, or nothing.
std::string read_speculation(const std::string& text, SpeculationOptions& options);

// --speculate and --draft.
struct SpeculationFlags {
  SpeculationOptions options;
  std::string draft;  // a model; empty: none

  void add_to(Flags& flags);
};

}  // namespace kvik
