#pragma once

#include <cstdint>

#include "engine/speculate/speculation_counters.h"

namespace kvik {

class Drafter;

struct SpeculationOptions {
  // kAuto: as many draft tokens as are worth their cost, given the time of rows and the acceptance
  // rates. kAlways: up to n_max for every sequence.
  enum class Mode : uint8_t { kOff, kAuto, kAlways } mode = Mode::kAuto;
  uint32_t n_max = kMaxDraftTokens;     // draft tokens of one sequence in one step
  uint32_t n_max_in_step = UINT32_MAX;  // draft tokens of all sequences in one step
  // Draft model or MTP head (DraftSource::kModel), used if the other sources expect few tokens;
  // borrowed; null for none.
  Drafter* drafter = nullptr;
  // The drafter's K and V are in the sequences' own pages, which need room for them.
  bool drafts_in_pages = false;
};

}  // namespace kvik
