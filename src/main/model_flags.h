#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "host/load_model.h"
#include "main/flags.h"

namespace kvik {

// MODEL and the flags of every command that computes.
void add_model_flags(Flags& flags, ModelOptions& options);

// --adapter of a command that computes with one, or none.
void add_adapter_flag(Flags& flags, ModelOptions& options);

// The name of a type of pages, Kvik's or llama.cpp's.
Words as_kv_type(std::optional<KvType>& type);

// "1,2,3" → ids. A bad list is kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
