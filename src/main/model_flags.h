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

// Adds MODEL and the flags that all commands with a forward pass share.
void add_model_flags(Flags& flags, ModelOptions& options);

// Adds --adapter for commands that use at most one adapter.
void add_adapter_flag(Flags& flags, ModelOptions& options);

// Returns a parser for the name of a KV type, Kvik's or llama.cpp's.
Words as_kv_type(std::optional<KvType>& type);

// Parses "1,2,3" as token ids. Errors: kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
