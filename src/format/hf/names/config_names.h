#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "catalogue/family.h"

namespace kvik::hf {

// Returns the error of reading a folder's config with the names of config.json in place of those of
// GGUF keys.
Error with_config_names(Error error, std::string_view architecture,
                        std::span<const FolderValue> values);

}  // namespace kvik::hf
