#pragma once

#include "format/model_source.h"

namespace kvik {

// Gives the tensors of an MTP layer whose two parts are numbered as layers, attention first, the
// names that they have in one layer: files of Nemotron 3 Puzzle number its parts like those of the
// model's layers. The keys, which list both, are unchanged. A source without such a layer is
// unchanged.
void join_mtp_blocks(ModelSource& source);

}  // namespace kvik
