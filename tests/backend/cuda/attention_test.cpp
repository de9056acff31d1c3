#include <fmt/format.h>

#include "backend/cuda/both_backends.h"
#include "backend/page_kinds.h"

namespace kvik {
namespace {

using testing::BothBackends;
using testing::kPageKinds;
using testing::PageKind;
using testing::placed;
using testing::PlacedRows;
using testing::random_floats;

// A sequence with cached and new tokens; its first pages may be those of another sequence.
struct Sequence {
  uint32_t n_cached = 0, n_new = 1;
  uint32_t n_shared_pages = 0;  // shared with the previous sequence
};

struct AttentionScene {
  KvGeometry kv;
  AttentionShape shape;
  std::vector<Sequence> sequences;
  bool has_sinks = false;
  bool has_open_pages = false;
};

// Pages and their tables in a backend's memory. Positions without a token contain garbage.
class Pages {
 public:
  Pages(Backend& backend, const AttentionScene& scene)
      : backend_(backend), page_bytes_(backend.page_bytes(scene.kv)) {
    uint32_t n_pages = 0;
    for (const Sequence& s : scene.sequences) {
      std::vector<uint32_t>& table = numbers_.emplace_back();
      const uint32_t n = (s.n_cached + s.n_new + kPageTokens - 1) / kPageTokens;
      for (uint32_t i = 0; i < n; ++i) {
        const bool is_shared = i < s.n_shared_pages;
        table.push_back(is_shared ? numbers_[numbers_.size() - 2][i] : n_pages++);
      }
    }
    const KvGeometry open = scene.kv.of_open_pages();
    const size_t open_bytes = backend.page_bytes(open), open_begin = n_pages * page_bytes_;
    const size_t n_open = scene.has_open_pages ? n_pages : 0;
    host_.assign(open_begin + n_open * open_bytes, std::byte{0xff});  // NaN
    memory_ = backend.memory().allocate(host_.size());
    backend.memory().copy_in(memory_.data(), host_);
    for (const std::vector<uint32_t>& table : numbers_) {
      std::vector<std::byte*>& pages = tables_.emplace_back();
      for (const uint32_t number : table) pages.push_back(memory_.data() + number * page_bytes_);
      std::vector<std::byte*>& open_pages = open_.emplace_back();
      for (const uint32_t number : table) {
        if (n_open > 0) open_pages.push_back(memory_.data() + open_begin + number * open_bytes);
      }
    }
  }

  const std::vector<std::byte*>& table(size_t sequence) const { return tables_[sequence]; }
  // Returns the open pages from the page of that position on, or none if the scene has no open
  // pages.
  std::span<std::byte* const> open(size_t sequence, uint32_t first_position) const {
    const std::span<std::byte* const> all = open_[sequence];
    return all.empty() ? all : all.subspan(first_position / kPageTokens);
  }
  std::span<const std::byte> bytes() {
    backend_.memory().copy_out(host_, memory_.data());
    return host_;
  }

 private:
  Backend& backend_;
  size_t page_bytes_;
  std::vector<std::vector<uint32_t>> numbers_;
  std::vector<std::vector<std::byte*>> tables_, open_;
  std::vector<std::byte> host_;
  Buffer memory_;
};

// Returns the output of attention, followed by the bytes of all pages.
std::vector<float> attended(Backend& backend, const AttentionScene& scene) {
  const KvGeometry& kv = scene.kv;
  Pages pages(backend, scene);
  const uint32_t width = kv.n_kv_heads * kv.head_dim;
  std::vector<KvRun> cached, runs;
  uint32_t n_cached = 0, n_new = 0;
  for (size_t i = 0; i < scene.sequences.size(); ++i) {
    const Sequence& s = scene.sequences[i];
    const uint32_t first = s.n_shared_pages * kPageTokens;
    cached.push_back({pages.table(i), first, n_cached, s.n_cached - first, pages.open(i, first)});
    n_cached += s.n_cached - first;
    runs.push_back({pages.table(i), s.n_cached, n_new, s.n_new, pages.open(i, s.n_cached)});
    n_new += s.n_new;
  }
  const auto write = [&](std::span<const KvRun> list, uint32_t n_rows, uint32_t seed) {
    if (n_rows == 0) return;
    PlacedRows k(backend, n_rows, width, random_floats(size_t{n_rows} * width, seed));
    PlacedRows v(backend, n_rows, width, random_floats(size_t{n_rows} * width, seed + 1));
    for (uint32_t layer = 0; layer < kv.n_layers; ++layer) {
      backend.write_kv({kv, layer, list}, k.rows, kv.latent_dim == 0 ? v.rows : Rows{});
    }
  };
  write(cached, n_cached, 10);
  write(runs, n_new, 20);
  const uint32_t q_dim = scene.shape.n_heads * kv.head_dim;
  PlacedRows q(backend, n_new, q_dim, random_floats(size_t{n_new} * q_dim, 30));
  PlacedRows out(backend, n_new, scene.shape.n_heads * kv.value_dim());
  const Buffer sinks = placed(backend, random_floats(scene.shape.n_heads, 40));
  AttentionShape shape = scene.shape;
  if (scene.has_sinks) shape.sinks = sinks.floats();
  backend.attention({kv, kv.n_layers - 1, runs}, shape, q.rows, out.rows);
  std::vector<float> all = out.values();
  for (const std::byte b : pages.bytes()) all.push_back(static_cast<float>(b));
  return all;
}

AttentionScene scene_of(PageKind kind, uint32_t n_kv_heads, uint32_t group, uint32_t head_dim) {
  return {.kv = {.type = kind.type,
                 .n_layers = 2,
                 .n_kv_heads = n_kv_heads,
                 .head_dim = head_dim,
                 .keys_by_channel = kind.keys_by_channel()},
          .shape = {.n_heads = n_kv_heads * group, .scale = 0.3f},
          .sequences = {{5, 3}},
          .has_open_pages = kind.open};
}

std::string name_of(const AttentionScene& s) {
  return fmt::format("{}{} head_dim {} latent {} heads {}/{}", name_of(s.kv.type),
                     s.has_open_pages ? " open" : "", s.kv.head_dim, s.kv.latent_dim,
                     s.shape.n_heads, s.kv.n_kv_heads);
}

TEST(CudaAttention, pages_and_outputs_have_the_cpus_bytes_for_every_type_and_head) {
  BothBackends both;
  for (const PageKind kind : kPageKinds) {
    for (const uint32_t head_dim : {4u, 20u, 33u, 64u, 80u, 96u, 128u, 160u, 256u}) {
      AttentionScene scene = scene_of(kind, 2, 3, head_dim);
      if (kind.open) scene.sequences = {{5, 3}, {60, 7}};
      EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); })) << name_of(scene);
    }
  }
}

TEST(CudaAttention, heads_change_their_basis_to_the_cpus_bits) {
  BothBackends both;
  for (const uint32_t head_dim : {4u, 20u, 33u, 64u, 80u, 96u, 128u, 256u}) {
    for (const HeadRotation rotation :
         {HeadRotation::kNone, HeadRotation::kForward, HeadRotation::kBack}) {
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        PlacedRows x(backend, 3, 6 * head_dim, random_floats(size_t{18} * head_dim, 1));
        const Buffer centers = placed(backend, random_floats(size_t{2} * head_dim, 2));
        const Buffer factors = placed(backend, random_floats(size_t{2} * head_dim, 3));
        backend.change_basis(x.rows, {.head_dim = head_dim,
                                      .group = 3,
                                      .centers = centers.floats(),
                                      .factors = factors.floats(),
                                      .rotation = rotation});
        backend.change_basis(x.rows, {.head_dim = head_dim, .rotation = rotation});
        return x.values();
      })) << "heads of "
          << head_dim;
    }
  }
}

// Covers decoding and chunks whose rows see different splits. With few processors, blocks attend
// whole slices; with many, the slices are split.
TEST(CudaAttention, splits_are_merged_in_their_order_however_rows_are_attended) {
  for (const uint32_t n_processors : {1u, 100u}) {
    BothBackends both({.n_processors = n_processors});
    for (const PageKind kind : kPageKinds) {
      for (const Sequence& s :
           {Sequence{511, 1}, Sequence{512, 1}, Sequence{500, 30}, Sequence{1030, 2}}) {
        AttentionScene scene = scene_of(kind, 1, 2, 32);
        scene.sequences = {s};
        EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); }))
            << name_of(scene) << " after " << s.n_cached;
      }
    }
  }
}

TEST(CudaAttention, windows_caps_and_sinks_have_the_cpus_bits) {
  BothBackends both;
  for (const PageKind kind : kPageKinds) {
    for (const uint32_t window : {0u, 1u, 33u, 600u}) {
      for (const float soft_cap : {0.0f, 2.0f}) {
        AttentionScene scene = scene_of(kind, 1, 2, 32);
        scene.sequences = {{40, 5}, {620, 2}};
        scene.shape.window = window;
        scene.shape.soft_cap = soft_cap;
        scene.has_sinks = soft_cap != 0.0f;
        EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); }))
            << name_of(scene) << " window " << window << " cap " << soft_cap;
      }
    }
  }
}

TEST(CudaAttention, latent_keys_are_values_as_well) {
  BothBackends both;
  for (const PageKind kind : kPageKinds) {
    for (const auto& [latent_dim, head_dim] : {std::pair{32u, 48u}, {512u, 576u}, {64u, 80u}}) {
      AttentionScene scene = scene_of(kind, 1, 5, head_dim);
      scene.kv.latent_dim = latent_dim;
      scene.kv.keys_by_channel = false;
      scene.sequences = {{70, 3}, {10, 1}};
      EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); })) << name_of(scene);
    }
  }
}

TEST(CudaAttention, sequences_that_share_pages_attend_them_together) {
  BothBackends both({.n_processors = 1});
  for (const PageKind kind : {PageKind{KvType::kBF16}, PageKind{KvType::kInt8},
                              PageKind{KvType::kInt8Int4, true}, PageKind{KvType::kInt4, true}}) {
    AttentionScene scene = scene_of(kind, 1, 2, 32);
    scene.sequences = {{600, 1}, {590, 2, 18}, {576, 1, 18}, {30, 1}};
    EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); })) << name_of(scene);
  }
}

TEST(CudaAttention, what_was_reserved_is_enough_for_open_pages) {
  for (const KvType type : {KvType::kInt8Int4, KvType::kInt4}) {
    BothBackends both({.n_processors = 100});
    AttentionScene scene = scene_of({type, true}, 1, 2, 32);
    scene.sequences = {{0, 1}};
    attended(both.cuda(), scene);  // lists use part of the memory
    scene.sequences = {{1060, 15}};
    both.cuda().reserve({.n_rows = 15,
                         .n_sequences = 1,
                         .weights = {},
                         .heads = {{scene.kv, scene.shape.n_heads}},
                         .n_ctx = 1075});
    const uint64_t reserved = both.device().held_bytes();
    attended(both.cuda(), scene);
    EXPECT_EQ(both.device().held_bytes(), reserved) << name_of(scene);
  }
}

// From 128 tokens on, similar weights are quantized to 255 levels.
TEST(CudaAttention, weights_that_are_alike_have_the_cpus_few_steps) {
  BothBackends both;
  for (const KvType type : {KvType::kInt8, KvType::kInt4}) {
    for (const uint32_t head_dim : {32u, 128u}) {  // one group of V, and two
      AttentionScene scene = scene_of({type}, 1, 1, head_dim);
      scene.shape.scale = 1e-4f;
      scene.sequences = {{125, 6}};
      EXPECT_TRUE(both.agree([&](Backend& b) { return attended(b, scene); })) << name_of(scene);
    }
  }
}

// Pages that have left the window may have been released.
TEST(CudaAttention, pages_outside_the_window_are_not_read) {
  BothBackends both;
  for (const PageKind kind : kPageKinds) {
    AttentionScene scene = scene_of(kind, 1, 1, 32);
    scene.shape.window = 40;
    scene.sequences = {{199, 1}};
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      Pages pages(backend, scene);
      PlacedRows k(backend, 200, 32, random_floats(200 * 32, 1));
      const KvRun all = {pages.table(0), 0, 0, 200, pages.open(0, 0)};
      backend.write_kv({scene.kv, 0, {&all, 1}}, k.rows, k.rows);
      std::vector<std::byte*> table = pages.table(0);
      for (size_t i = 0; i < 5; ++i) table[i] = nullptr;
      if (kind.open) table[6] = nullptr;  // the row's own page
      const KvRun last = {table, 199, 0, 1, pages.open(0, 199)};
      PlacedRows out(backend, 1, 32);
      backend.attention({scene.kv, 0, {&last, 1}}, scene.shape, k.rows.slice(0, 1), out.rows);
      return out.values();
    })) << name_of(scene);
  }
}

// Scores of a row of zeros and of a row of huge values.
TEST(CudaAttention, unusual_queries_have_the_cpus_bits) {
  BothBackends both;
  for (const PageKind kind : kPageKinds) {
    const AttentionScene scene = scene_of(kind, 1, 1, 32);
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      AttentionScene of_tokens = scene;
      of_tokens.sequences = {{0, 40}};
      Pages pages(backend, of_tokens);
      std::vector<float> values = random_floats(40 * 32, 1);
      std::fill_n(values.begin() + 32, 64, 0.0f);
      for (uint32_t i = 0; i < 32; ++i) values[5 * 32 + i] *= 1e18f;
      PlacedRows k(backend, 40, 32, values);
      const KvRun run = {pages.table(0), 0, 0, 40, pages.open(0, 0)};
      backend.write_kv({scene.kv, 0, {&run, 1}}, k.rows, k.rows);
      PlacedRows out(backend, 40, 32);
      backend.attention({scene.kv, 0, {&run, 1}}, scene.shape, k.rows, out.rows);
      return out.values();
    })) << name_of(scene);
  }
}

}  // namespace
}  // namespace kvik
