#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/page_kinds.h"
#include "backend/random_matrix.h"

// Adjacent KV heads of a decoding row are processed together where that reads memory faster, with
// the bits that each head has alone. That depends on the number of threads.
namespace kvik {
namespace {

using testing::kPageKinds;
using testing::OwnedRows;
using testing::PageKind;
using testing::random_floats;
using testing::same_bytes;

struct Heads {
  uint32_t head_dim, n_kv_heads, group;
  uint32_t n_heads() const { return n_kv_heads * group; }
};

// Two sequences of 5 and 6 splits. Their K and V are those of the second of two layers.
class Sequences {
 public:
  Sequences(Backend& backend, PageKind kind, const Heads& heads)
      : backend_(backend),
        heads_(heads),
        geometry_{.type = kind.type,
                  .n_layers = 2,
                  .n_kv_heads = heads.n_kv_heads,
                  .head_dim = heads.head_dim,
                  .keys_by_channel = kind.keys_by_channel()} {
    for (const uint32_t n : {2200u, 2823u}) {
      const uint32_t width = heads.n_kv_heads * heads.head_dim;
      const OwnedRows k(backend.memory(), n, width, random_floats(n * width, n));
      const OwnedRows v(backend.memory(), n, width, random_floats(n * width, n + 1));
      tables_.push_back(new_pages(n, geometry_));
      open_.push_back(kind.open ? new_pages(n, geometry_.of_open_pages())
                                : std::vector<std::byte*>());
      const KvRun run = {tables_.back(), 0, 0, n, open_.back()};
      backend.write_kv({geometry_, 1, {&run, 1}}, k.rows, v.rows);
      lengths_.push_back(n);
    }
  }

  // Attends the last row of both.
  std::vector<float> attend(uint32_t window) {
    std::vector<KvRun> runs;
    for (uint32_t i = 0; i < tables_.size(); ++i) {
      runs.push_back({tables_[i], lengths_[i] - 1, i, 1});
      if (!open_[i].empty()) runs[i].open = std::span(open_[i]).last(1);
    }
    const uint32_t width = heads_.n_heads() * heads_.head_dim;
    const OwnedRows q(backend_.memory(), 2, width, random_floats(2 * width, 7));
    const OwnedRows out(backend_.memory(), 2, width);
    backend_.attention({geometry_, 1, runs},
                       {.n_heads = heads_.n_heads(), .scale = 0.3f, .window = window}, q.rows,
                       out.rows);
    return out.values();
  }

 private:
  std::vector<std::byte*> new_pages(uint32_t n_tokens, const KvGeometry& geometry) {
    std::vector<std::byte*> pages;
    for (uint32_t first = 0; first < n_tokens; first += kPageTokens) {
      buffers_.push_back(backend_.memory().allocate(backend_.page_bytes(geometry)));
      pages.push_back(buffers_.back().data());
    }
    return pages;
  }

  Backend& backend_;
  const Heads heads_;
  const KvGeometry geometry_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte*>> tables_, open_;
  std::vector<uint32_t> lengths_;
};

TEST(AdjacentHeads, heads_processed_together_have_the_bits_of_each_alone) {
  const Heads all[] = {{64, 4, 3}, {16, 8, 1}, {128, 6, 8}, {32, 4, 10}};
  for (const PageKind kind : kPageKinds) {
    if (kind.type != KvType::kInt8) continue;
    for (const Heads& heads : all) {
      for (const uint32_t window : {0u, 1700u}) {
        std::vector<float> first;
        for (const std::string_view isa : cpu_isa_names()) {
          for (const uint32_t n_threads : {1u, 3u, 24u}) {  // with 24, each head is an item
            if (isa == "scalar" && n_threads == 3) continue;
            const auto backend = std::move(*make_cpu_backend({n_threads, std::string(isa)}));
            const std::vector<float> out = Sequences(*backend, kind, heads).attend(window);
            if (first.empty()) first = out;
            EXPECT_TRUE(same_bytes(out, first))
                << isa << " " << name_of(kind) << " head_dim " << heads.head_dim << " threads "
                << n_threads << " window " << window;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvik
