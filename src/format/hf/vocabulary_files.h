#pragma once

#include <string>

#include "base/metadata.h"
#include "base/result.h"
#include "format/hf/config.h"

namespace kvik::hf {

// Adds the folder's vocabulary to `metadata` for Tokenizer::from_metadata(): tokenizer.json
// unchanged ("tokenizer.huggingface.json"), and the related values of tokenizer_config.json,
// chat_template.jinja, generation_config.json and `config`. A folder without tokenizer.json adds
// nothing. Errors: kCorrupt, kIo, naming the file.
Result<void> add_vocabulary(const std::string& folder, const FolderConfig& config,
                            Metadata& metadata);

}  // namespace kvik::hf
