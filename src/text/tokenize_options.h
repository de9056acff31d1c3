#pragma once

namespace kvik {

struct TokenizeOptions {
  bool add_bos = true;         // BOS and EOS are added only if the vocabulary asks for them
  bool parse_special = false;  // false: the text of a special token is plain text
};

}  // namespace kvik
