// Any bytes as a model.safetensors.index.json: it names plain files beside it, or one sentence says
// why not.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/hf/tensor_files.h"
#include "fuzz/read_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  const auto index =
      hf::read_tensor_index(std::string_view(reinterpret_cast<const char*>(data), n_bytes));
  if (!index) {
    check_error(index.error());
    return 0;
  }
  CHECK(!index->empty());
  for (const auto& [file, tensors] : *index) {
    CHECK(file.ends_with(".safetensors") && file.find('/') == std::string::npos);
    CHECK(!tensors.empty());
  }
  return 0;
}
