#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Removes the embedding and the output projection of the MTP head from the source's tensors if they
// are copies of the model's, which files of DeepSeek and GLM contain. Samples are compared, so that
// gigabytes need not be read twice: a mistake could change which tokens are drafted, but no answer.
// Errors: those of reading.
Result<void> leave_out_mtp_copies(ModelSource& source);

}  // namespace kvik
