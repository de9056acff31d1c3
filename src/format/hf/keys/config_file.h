#pragma once

namespace kvik::hf {

// Name of the file with the configuration of a folder's model, for messages.
inline constexpr const char* kConfigFile = "config.json";

}  // namespace kvik::hf
