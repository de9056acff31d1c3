#include "study/noise.h"

#include <random>
#include <vector>

namespace kvik {

Buffer noise(Memory& memory, size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  Buffer buffer = memory.allocate(n * sizeof(float));
  memory.copy_in(buffer.data(), std::as_bytes(std::span(values)));
  return buffer;
}

void fill_with_noise(Backend& backend, const KvGeometry& geometry,
                     std::span<std::byte* const> pages, uint32_t seed) {
  const uint32_t width = geometry.n_kv_heads * geometry.head_dim;
  const Buffer kv = noise(backend.memory(), size_t{kPageTokens} * width, seed);
  const Rows rows{kv.floats(), kPageTokens, width, width};
  KvRun first{.pages = pages, .n_rows = kPageTokens};
  Buffer open;
  std::byte* open_page = nullptr;
  if (geometry.keys_by_channel) {
    open = backend.memory().allocate(backend.page_bytes(geometry.of_open_pages()));
    open_page = open.data();
    first.open = {&open_page, 1};
  }
  for (uint32_t layer = 0; layer < geometry.n_layers; ++layer) {
    backend.write_kv({geometry, layer, std::span(&first, 1)}, rows, rows);
  }
  for (std::byte* page : pages.subspan(1)) {
    backend.memory().copy(page, pages[0], backend.page_bytes(geometry));
  }
}

}  // namespace kvik
