#pragma once

#include <string>

#include "base/metadata.h"
#include "base/result.h"
#include "format/hf/config.h"

namespace kvik::hf {

// Puts what a folder says of its tokens into `metadata`, for Tokenizer::from_metadata():
// tokenizer.json as it is ("tokenizer.huggingface.json"), and what stands beside it in
// tokenizer_config.json, chat_template.jinja, generation_config.json and `config`. A folder without
// tokenizer.json adds nothing. Errors: kCorrupt, kIo, naming the file.
Result<void> add_vocabulary(const std::string& folder, const FolderConfig& config,
                            Metadata& metadata);

}  // namespace kvik::hf
