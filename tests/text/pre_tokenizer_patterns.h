#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// Returns the regular expressions equivalent to the scanners of pre-tokenizers, as in the models'
// own tokenizer.json (with ASCII case folding written out), by the name of each behavior's first
// pre-tokenizer. Expressions of one behavior are applied one after the other.
const std::map<std::string, std::vector<std::string>>& pre_tokenizer_patterns();

std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace kvik
