#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token_id.h"
#include "host/load_model.h"

namespace kvik {

// MODEL and the flags of every command that computes; KVIK_ISA.
void add_model_flags(CLI::App& command, ModelOptions& options);

// --name N where N may end in k (1024) or M, or in KiB, MiB, GiB. A bad value is a usage error.
CLI::Option* add_count(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help);
CLI::Option* add_count(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help);
// The same, several with commas between.
CLI::Option* add_counts(CLI::App& command, const std::string& name, std::vector<uint64_t>& values,
                        const std::string& help);
CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help);
// --name T where T is a time with its unit.
CLI::Option* add_duration(CLI::App& command, const std::string& name, Duration& value,
                          const std::string& help);

// "1,2,3" → ids. A bad list is kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
