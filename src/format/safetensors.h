#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "format/model_bytes.h"
#include "format/model_source.h"

namespace kvik {

// Opens a .safetensors file, without metadata; tensors are read on demand. The whole header is
// validated first: its length against the file and 32 MiB, each shape and type against its bytes,
// and that the tensors cover the data exactly without overlap. A tensor without axes gets one of
// size 1. Errors: kNotFound, kIo, kCorrupt (one sentence naming the tensor), kUnsupported (an
// element type). Source: huggingface/safetensors, README, "Format".
Result<std::unique_ptr<ModelSource>> open_safetensors(
    const std::string& path, const SpareRegion& spare = make_spare_region());

// Like open_safetensors(), for bytes that outlive the source.
Result<std::unique_ptr<ModelSource>> open_safetensors_bytes(std::string label,
                                                            std::span<const std::byte> bytes);

}  // namespace kvik
