#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "format/model_source.h"

namespace kvik {

// Opens a GGUF file (versions 2 and 3, little endian); tensors are read on demand. The whole header
// is validated first: counts against the size of the file, shapes against overflow, offsets against
// alignment, file size and each other, and duplicate keys and tensors. A header may have at most
// 128 MiB, which bounds what a hostile file can make us allocate. Errors: kNotFound, kIo, kCorrupt
// (one sentence naming the key or tensor), kUnsupported (version, byte order, element type). A file
// that is one of several pieces ("-00001-of-00003.gguf") opens all of them. Source: the
// specification of GGUF in ggml.
Result<std::unique_ptr<ModelSource>> open_gguf(const std::string& path);

// Like open_gguf(), for bytes that outlive the source, such as those embedded in the binary.
Result<std::unique_ptr<ModelSource>> open_gguf_bytes(std::string label,
                                                     std::span<const std::byte> bytes);

}  // namespace kvik
