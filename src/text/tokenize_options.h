#pragma once

namespace kvik {

struct TokenizeOptions {
  bool add_bos = true;         // and EOS: each only where the vocabulary asks for it
  bool parse_special = false;  // false: the text of a special token is plain text (THREATS 20)
};

}  // namespace kvik
