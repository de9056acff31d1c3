// Any bytes as a GGUF file, or as two pieces of one: the first four bytes say where the second
// begins. It opens, and all of it can be read, or it says in one sentence why not.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "format/gguf/gguf.h"
#include "format/gguf/gguf_experts.h"
#include "format/gguf/gguf_split.h"
#include "fuzz/read_everything.h"

namespace kvik {
namespace {

using Bytes = std::span<const std::byte>;

void read_one(Bytes file) {
  auto source = open_gguf_bytes("fuzz.gguf", file);
  if (!source) return check_error(source.error());
  read_everything(**source);
  const auto split = read_gguf_split((*source)->metadata());
  if (!split) check_error(split.error());
  const auto stacked = stack_gguf_experts(**source);
  if (!stacked) return check_error(stacked.error());
  read_everything(**source);
}

void read_two(Bytes first, Bytes second) {
  std::vector<std::unique_ptr<ModelSource>> pieces;
  for (const Bytes file : {first, second}) {
    auto source = open_gguf_bytes("fuzz.gguf", file);
    if (!source) return;
    pieces.push_back(std::move(*source));
  }
  auto joined = join_gguf_pieces(std::move(pieces));
  if (!joined) return check_error(joined.error());
  read_everything(**joined);
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  uint32_t cut = 0;
  if (n_bytes < sizeof(cut)) return 0;
  std::memcpy(&cut, data, sizeof(cut));
  const kvik::Bytes files = std::as_bytes(std::span(data, n_bytes)).subspan(sizeof(cut));
  if (cut >= files.size()) {
    kvik::read_one(files);
  } else {
    kvik::read_two(files.first(cut), files.subspan(cut));
  }
  return 0;
}
