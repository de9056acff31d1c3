#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "host/load_model.h"
#include "main/flags.h"

namespace kvik {

// MODEL and the flags of every command that computes; KVIK_ISA.
void add_model_flags(Flags& flags, ModelOptions& options);

// --adapter of a command that computes with one, or none.
void add_adapter_flag(Flags& flags, ModelOptions& options);

// "1,2,3" → ids. A bad list is kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
