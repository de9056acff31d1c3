// Any bytes as a safetensors file: it opens, and all of it can be read, or it says in one sentence
// why not.

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/safetensors.h"
#include "fuzz/read_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto source = kvik::open_safetensors_bytes("fuzz", std::as_bytes(std::span(data, n_bytes)));
  if (source) {
    kvik::read_everything(**source);
  } else {
    kvik::check_error(source.error());
  }
  return 0;
}
