#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// The expressions that the scanners of pre-tokenizers stand for, as the models' own tokenizer.json
// have them (case folding of ASCII written out), by the name of each behaviour's first
// pre-tokenizer. Those of one behaviour cut one behind the other.
const std::map<std::string, std::vector<std::string>>& pre_tokenizer_patterns();

std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace kvik
