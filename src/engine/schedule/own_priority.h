#pragma once

#include <vector>

#include "engine/sequence.h"

namespace kvik {

// Reorders the sequences of each tenant by their priority among the tenant's own requests
// (Request::Ranks), otherwise in their present order. The sequences of a tenant only exchange
// positions with each other, so the priority never puts one ahead of another tenant's sequences.
void order_within_tenants(std::vector<Sequence*>& sequences);

}  // namespace kvik
