#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "main/serve/serve_router.h"

namespace kvik {

// Plans the process that serves with these arguments. Without --kv-memory it chooses the usual
// cache, or as much as fits into `max_bytes`, but enough for a short conversation. Errors:
// kInvalidArgument, and those of opening the model.
Result<ServerPlan> plan_server(const std::vector<std::string>& arguments, uint64_t max_bytes);

// Checks the flags of the models' servers before any model is opened. Errors: kInvalidArgument,
// naming the model.
Result<void> check_server_flags(const std::vector<GivenFlag>& for_all,
                                const std::vector<RouterModel>& models);

}  // namespace kvik
