// Any bytes as a config.json, and what follows a NUL as the safetensors file beside it: both
// become a model's keys and tensors, or one sentence says why not.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "catalogue/model_config.h"
#include "format/hf/config.h"
#include "format/hf/tensor_names.h"
#include "format/safetensors.h"
#include "fuzz/read_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  const std::string_view all(reinterpret_cast<const char*>(data), n_bytes);
  const size_t end = std::min(all.find('\0'), all.size());
  auto folder = hf::read_folder_config(all.substr(0, end));
  if (!folder) {
    check_error(folder.error());
    return 0;
  }
  if (const auto config = read_config(folder->metadata); !config) check_error(config.error());
  const size_t begin = std::min(end + 1, all.size());
  auto source =
      open_safetensors_bytes("fuzz", std::as_bytes(std::span(data, n_bytes)).subspan(begin));
  if (!source) return 0;
  const auto arranged = hf::arrange_folder(**source, "fuzz", std::move(*folder));
  if (arranged) {
    read_everything(**source);
  } else {
    check_error(arranged.error());
  }
  return 0;
}
