#pragma once

namespace kvik {

// Options of Tokenizer::tokenize().
struct TokenizeOptions {
  bool add_bos = true;         // adds BOS and EOS if the vocabulary requires them
  bool parse_special = false;  // false: the texts of special tokens are plain text
};

}  // namespace kvik
