#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// What a piece of a GGUF model in several files says of itself.
struct GgufSplit {
  uint64_t no = 0;  // from 0 on
  uint64_t count = 0;
  uint64_t n_tensors = 0;  // of all pieces together
};

// Empty where the file is whole. Errors: kCorrupt for numbers that cannot be.
Result<std::optional<GgufSplit>> read_gguf_split(const Metadata& metadata);

// The path of piece `no` of a model one of whose pieces lies at `path`, which must end in the
// number and count that it says of itself ("-00002-of-00003.gguf"). Errors: kInvalidArgument.
Result<std::string> gguf_piece_path(const std::string& path, const GgufSplit& self, uint64_t no);

// All pieces as one source with the first one's metadata. Errors: kCorrupt where a piece is another
// one than its name says, a tensor is in two of them, or there are not as many as stated.
Result<std::unique_ptr<ModelSource>> join_gguf_pieces(
    std::vector<std::unique_ptr<ModelSource>> pieces);

}  // namespace kvik
