#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "format/model_bytes.h"
#include "format/model_source.h"

namespace kvik {

// Opens a .safetensors file, with no metadata; a tensor is read when it is asked for. The whole
// header is checked before anything of it is used: its length against the file and 32 MiB, each
// shape times its element type against the bytes it is given, and that the tensors lie one behind
// the other from the first byte to the last, so that none overlaps another. A tensor without axes
// has one of 1 here. Errors: kNotFound, kIo, kCorrupt (one sentence naming the tensor),
// kUnsupported (an element type). Source: huggingface/safetensors, README, "Format".
Result<std::unique_ptr<ModelSource>> open_safetensors(const std::string& path,
                                                      const SparePart& spare = make_spare_part());

// The same over bytes that outlive the source.
Result<std::unique_ptr<ModelSource>> open_safetensors_bytes(std::string label,
                                                            std::span<const std::byte> bytes);

}  // namespace kvik
