// Any bytes as an adapter: a GGUF file, or an adapter_config.json before an
// adapter_model.safetensors. The first byte says which model it is for, the next four how long the
// JSON is; 0: there is none. It opens, and all of its pairs can be read, or it says in one sentence
// why not.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/adapter/gguf_adapter.h"
#include "format/adapter/peft_adapter.h"
#include "format/gguf/gguf.h"
#include "format/safetensors.h"
#include "format/synthetic/synthetic.h"
#include "fuzz/read_everything.h"

namespace kvik {
namespace {

using Bytes = std::span<const std::byte>;

const std::vector<ModelConfig>& models() {
  static const std::vector<ModelConfig> all = [] {
    std::vector<ModelConfig> configs;
    for (const char* preset :
         {"test-llama", "test-mixtral", "test-mla", "test-qwen2moe", "test-qwen35",
          "test-qwen3next", "test-lfm2", "test-granitehybrid"}) {
      const auto source = make_synthetic(std::string("synthetic:") + preset + ":f32");
      CHECK(source.has_value());
      configs.push_back(*read_config((*source)->metadata()));
    }
    return configs;
  }();
  return all;
}

void read_all(const Result<std::unique_ptr<AdapterSource>>& opened) {
  if (!opened) return check_error(opened.error());
  AdapterSource& source = **opened;
  CHECK(!source.pairs().empty());
  for (size_t i = 0; i < source.pairs().size(); ++i) {
    const AdapterPair& pair = source.pairs()[i];
    CHECK(pair.rank >= 1 && pair.rank <= kMaxAdapterRank);
    const auto factors = source.read(i);
    if (!factors) {
      check_error(factors.error());
      continue;
    }
    CHECK(factors->a.size() == pair.rank * pair.n_cols);
    CHECK(factors->b.size() == pair.n_rows * pair.rank);
  }
}

void read_gguf(Bytes file, const ModelConfig& model) {
  auto source = open_gguf_bytes("fuzz.gguf", file);
  if (!source) return check_error(source.error());
  read_all(read_gguf_adapter(std::move(*source), model, 1.0f));
}

void read_peft(std::string_view json, Bytes file, const ModelConfig& model) {
  const auto config = read_peft_config(json);
  if (!config) return check_error(config.error());
  auto source = open_safetensors_bytes("fuzz", file);
  if (!source) return check_error(source.error());
  read_all(read_peft_adapter(*config, std::move(*source), "fuzz", model, 1.0f));
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  uint32_t n_json = 0;
  if (n_bytes < 1 + sizeof(n_json)) return 0;
  const auto& model = kvik::models()[data[0] % kvik::models().size()];
  std::memcpy(&n_json, data + 1, sizeof(n_json));
  const kvik::Bytes rest = std::as_bytes(std::span(data, n_bytes)).subspan(1 + sizeof(n_json));
  if (n_json == 0) {
    kvik::read_gguf(rest, model);
  } else if (n_json <= rest.size()) {
    kvik::read_peft({reinterpret_cast<const char*>(rest.data()), n_json}, rest.subspan(n_json),
                    model);
  }
  return 0;
}
