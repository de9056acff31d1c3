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

// Position of a file among the pieces of a GGUF model.
struct GgufSplit {
  uint64_t no = 0;  // index of this piece, from 0
  uint64_t count = 0;
  uint64_t n_tensors = 0;  // number of tensors in all pieces together
};

// Reads the split.* keys of a file; std::nullopt if it is not a piece. Errors: kCorrupt for
// impossible numbers.
Result<std::optional<GgufSplit>> read_gguf_split(const Metadata& metadata);

// Returns the path of piece `no`, given the path of another piece, which must end in its own number
// and count ("-00002-of-00003.gguf"). Errors: kInvalidArgument.
Result<std::string> gguf_piece_path(const std::string& path, const GgufSplit& self, uint64_t no);

// Joins all pieces into one source with the metadata of the first. Errors: kCorrupt if a piece is
// not the one that its name says, a tensor occurs twice, or the number of tensors is not as stated.
Result<std::unique_ptr<ModelSource>> join_gguf_pieces(
    std::vector<std::unique_ptr<ModelSource>> pieces);

}  // namespace kvik
