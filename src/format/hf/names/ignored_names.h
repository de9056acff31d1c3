#pragma once

#include <cstdint>
#include <string_view>

namespace kvik::hf {

// Returns whether a tensor or module of that name belongs to a vision or audio part.
bool is_multimodal_tensor(std::string_view name);
// Returns whether a tensor of that name belongs to such a part of Step 3.7.
bool is_multimodal_tensor_of_step(std::string_view name);
// Returns whether a tensor belongs to a head that drafts tokens and is not used, or to the switch
// of a Granite Switch, which computes nothing of its own, whatever the prefix of the others.
bool is_of_unused_head(std::string_view name);
// Returns whether a tensor's name begins with `prefix` and the number of one of n layers from the
// first one on. MTP layers follow the other layers.
bool is_of_layers(std::string_view name, std::string_view prefix, uint32_t first, uint64_t n);
// Returns whether a tensor of an encoder belongs to a head for another task.
bool is_of_other_task(std::string_view name);

}  // namespace kvik::hf
