#pragma once

#include <string>

#include "base/result.h"
#include "main/flags.h"

namespace kvik {

// Add `kvik cache export`, `import` and `warm` to the command `cache`.
void add_cache_export(CommandLine& line, const Flags& cache);
void add_cache_import(CommandLine& line, const Flags& cache);
void add_cache_warm(CommandLine& line, const Flags& cache);

// Returns the secret in the file of --key, without blanks at its end; empty if no file is named.
// Errors: kNotFound, kIo; kInvalidArgument for a short one.
Result<std::string> read_signing_key(const std::string& path);

// Flag --key.
Flag signing_key_flag(std::string& path, const std::string& help);

}  // namespace kvik
