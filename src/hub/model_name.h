#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/hub_options.h"

namespace kvik {

// A parsed name of a model. Its parts contain no separator, control character or "..", so that they
// may become names of files and folders.
struct ModelName {
  enum class Kind {
    kHuggingFace,  // [hf.co/]ORG/REPO[:QUANT] or [hf.co/]ORG/REPO/FILE
    kOllama,       // [ollama://][NAMESPACE/]MODEL[:TAG]
    kUrl,          // https://HOST/PATH/FILE.gguf
  };
  Kind kind = Kind::kHuggingFace;
  // Written with its origin (hf.co/, ollama://, https://): commands that need a model download it
  // if it is not stored.
  bool has_origin = false;

  // Hugging Face:
  std::string org = {}, repo = {};
  std::string quant = {};  // as written; empty: the default one
  std::string file = {};   // path in the repository; empty: none
  // Ollama:
  std::string space = "library";
  std::string model = {};
  std::string tag = "latest";
  // URL without fragment:
  std::string url = {};

  // Returns "ORG/REPO".
  std::string repository() const { return org + "/" + repo; }
  // Returns the name in its usual form: ORG/REPO:QUANT, ORG/REPO/FILE, MODEL:TAG,
  // NAMESPACE/MODEL:TAG or the URL.
  std::string text() const;
  // Returns the argument of `kvik pull` that means this model: that of text(), and "ollama://"
  // before a name of Ollama's.
  std::string pull_argument() const;
};

// Parses a name. ORG/REPO without an origin is Hugging Face's, a name without a slash is Ollama's,
// and a URL of a file at options.hf_endpoint or huggingface.co is Hugging Face's. Errors:
// kInvalidArgument, naming the text and the expected forms.
Result<ModelName> parse_model_name(std::string_view text, const HubOptions& options);

// Returns whether a relative path from the network may be created below a folder: no part is empty,
// "." or "..", begins with a blank or contains a backslash or a control character, and the parts
// and the whole are not too long.
bool is_safe_path(std::string_view path);

// Returns whether a text is `n_digits` lowercase hexadecimal digits.
bool is_hex(std::string_view text, size_t n_digits);

}  // namespace kvik
