#pragma once

#include <vector>

#include "engine/sequence.h"

namespace kvik {

// Reorders sequences, which stand in the order of all, among the places that their tenant has in
// it: by the priority that they have among their tenant's own (Request::Ranks), else as they stood.
// So a priority brings nobody before another tenant's sequences.
void order_within_tenants(std::vector<Sequence*>& sequences);

}  // namespace kvik
