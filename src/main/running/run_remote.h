#pragma once

#include <memory>

#include "base/result.h"
#include "cli/generator.h"
#include "main/run_options.h"

namespace kvik {

// Returns a running server's model for `kvik run`; null if the model should be loaded here: with
// --local or a flag that concerns loading, or if no server at the default address serves it.
// Errors: those of a server that --url names, and kNotFound if it does not serve the model.
Result<std::unique_ptr<Generator>> find_running(const RunOptions& options);

}  // namespace kvik
