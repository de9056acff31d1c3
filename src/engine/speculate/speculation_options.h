#pragma once

#include <cstdint>

#include "engine/speculate/speculation_counters.h"

namespace kvik {

class Drafter;

struct SpeculationOptions {
  // kAuto: as many guesses as pay, by what rows cost and how often such guesses came true. kAlways:
  // n_most wherever a drafter has any.
  enum class Mode : uint8_t { kOff, kAuto, kAlways } mode = Mode::kAuto;
  uint32_t n_most = kMostGuesses;        // of one sequence in one step
  uint32_t n_most_in_step = UINT32_MAX;  // of all sequences
  // Of GuessSource::kModel, asked where the others have little to say; borrowed.
  Drafter* drafter = nullptr;
  bool drafts_in_pages =
      false;  // its K and V lie in the sequences' own pages, which have room then
};

}  // namespace kvik
