#include "backend/attention_case.h"
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/host_memory.h"

// Rows that read the page of their own token from an open page.
// tests/backend/cpu/attention/attention_test.cpp compares them with the formula.
namespace kvik {
namespace {

using cpu::testing::Case;
using testing::OwnedRows;
using testing::random_floats;
using testing::same_bytes;
using testing::sets_here;

constexpr KvType kTypesWithOpenPages[] = {KvType::kInt8, KvType::kInt8Int4, KvType::kInt4};

TEST(OpenPages, a_row_reads_its_own_page_from_the_open_one_alone) {
  for (const KvType type : kTypesWithOpenPages) {
    for (const uint32_t latent_dim : {0u, 48u}) {
      const Case c{
          .type = type, .open = true, .n_tokens = 550, .n_rows = 5, .latent_dim = latent_dim};
      cpu::testing::Sequence sequence(c);
      const std::vector<float> before = sequence.attend(cpu::instruction_sets().front());
      sequence.pages.back() = nullptr;
      std::fill(sequence.open.begin(), sequence.open.end() - 1, nullptr);
      for (const cpu::InstructionSet* isa : sets_here()) {
        EXPECT_TRUE(same_bytes(sequence.attend(*isa), before)) << isa->name << name_of(type);
      }
    }
  }
}

TEST(OpenPages, rows_of_two_pages_that_see_themselves_alone_touch_no_other_page) {
  for (const KvType type : kTypesWithOpenPages) {
    const Case c{.type = type, .open = true, .n_tokens = 70, .n_rows = 10, .window = 1};
    cpu::testing::Sequence sequence(c);
    const std::vector<float> before = sequence.attend(cpu::instruction_sets().front());
    std::fill(sequence.pages.begin(), sequence.pages.end(), nullptr);
    for (const cpu::InstructionSet* isa : sets_here()) {
      EXPECT_TRUE(same_bytes(sequence.attend(*isa), before)) << isa->name << name_of(type);
    }
  }
}

TEST(OpenPages, rows_that_see_no_other_page_have_the_bits_of_bf16_pages) {
  for (const KvType type : kTypesWithOpenPages) {
    for (const uint32_t latent_dim : {0u, 48u}) {
      Case c{.type = type, .open = true, .n_tokens = 32, .n_rows = 32, .latent_dim = latent_dim};
      Case as_bf16 = c;
      as_bf16.type = KvType::kBF16;
      as_bf16.open = false;
      cpu::testing::Sequence sequence(c);
      sequence.pages[0] = nullptr;
      for (const cpu::InstructionSet* isa : sets_here()) {
        EXPECT_TRUE(same_bytes(sequence.attend(*isa), cpu::testing::Sequence(as_bf16).attend(*isa)))
            << isa->name << name_of(type);
      }
    }
  }
}

struct Heads {
  KvType type;
  uint32_t head_dim = 24;
  uint32_t latent_dim = 0;
  uint32_t n_kv_heads = 2;
  uint32_t group = 3;

  KvGeometry geometry() const {
    return {.type = type,
            .n_layers = 2,
            .n_kv_heads = n_kv_heads,
            .head_dim = head_dim,
            .latent_dim = latent_dim,
            .keys_by_channel = type == KvType::kInt4 && latent_dim == 0};
  }
  uint32_t n_heads() const { return n_kv_heads * group; }
};

std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

// One sequence with layer 1 computed, and as many open pages as its chunks need, which are reused.
class OpenSequence {
 public:
  enum class Pages { kOpen, kClosed };
  OpenSequence(Backend& backend, const Heads& heads, uint32_t n_tokens, uint32_t chunk,
               Pages pages = Pages::kOpen)
      : backend_(backend), heads_(heads), geometry_(heads.geometry()), chunk_(chunk) {
    if (pages == Pages::kClosed) geometry_.keys_by_channel = false;
    for (uint32_t first = 0; first < n_tokens; first += kPageTokens) {
      pages_.push_back(new_page(geometry_));
    }
    for (uint32_t i = 0; i < chunk / kPageTokens + 2; ++i) {
      open_.push_back(new_page(heads.geometry().of_open_pages()));
    }
  }

  // Writes the tokens from `first` on in chunks, and attends those from first_attended on.
  std::vector<float> run(uint32_t first, uint32_t end, uint32_t first_attended, uint32_t window) {
    std::vector<float> all;
    for (; first < end; first += chunk_) {
      const uint32_t n = std::min(chunk_, end - first);
      std::vector<std::byte*> open;
      for (uint32_t page = first / kPageTokens; page <= (first + n - 1) / kPageTokens; ++page) {
        open.push_back(open_[page % open_.size()]);
      }
      const KvRun run{pages_, first, 0, n, open};
      const KvTarget target{geometry_, 1, {&run, 1}};
      write(target);
      if (first < first_attended) continue;
      const OwnedRows q = rows_of(heads_.n_heads() * heads_.head_dim, first, n, 3);
      OwnedRows out(backend_.memory(), n, heads_.n_heads() * geometry_.value_dim());
      backend_.attention(target, {.n_heads = heads_.n_heads(), .scale = 0.25f, .window = window},
                         q.rows, out.rows);
      const std::vector<float> part = out.values();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  void write_without_open_pages(uint32_t n) {
    const KvRun run{pages_, 0, 0, n};
    write({geometry_, 1, {&run, 1}});
  }

  const KvGeometry& geometry() const { return geometry_; }
  const std::byte* page(size_t i) const { return pages_[i]; }
  const std::byte* open_page(size_t i) const { return open_[i]; }

 private:
  std::byte* new_page(const KvGeometry& geometry) {
    buffers_.push_back(backend_.memory().allocate(backend_.page_bytes(geometry)));
    std::memset(buffers_.back().data(), 0xff, buffers_.back().size());  // NaN
    return buffers_.back().data();
  }
  void write(const KvTarget& target) {
    const KvRun& run = target.runs.front();
    const uint32_t width = heads_.n_kv_heads * heads_.head_dim;
    const OwnedRows k = rows_of(width, run.first_position, run.n_rows, 1);
    const OwnedRows v = rows_of(width, run.first_position, run.n_rows, 2);
    backend_.write_kv(target, k.rows, heads_.latent_dim == 0 ? v.rows : Rows{});
  }
  // A token's row depends only on its position.
  OwnedRows rows_of(uint32_t width, uint32_t first, uint32_t n, uint32_t seed) {
    std::vector<float> values;
    for (uint32_t i = 0; i < n; ++i) {
      const std::vector<float> row = random_floats(width, seed + 10 * (first + i));
      values.insert(values.end(), row.begin(), row.end());
    }
    return OwnedRows(backend_.memory(), n, width, values);
  }

  Backend& backend_;
  const Heads heads_;
  KvGeometry geometry_;
  const uint32_t chunk_;
  std::vector<Buffer> buffers_;
  std::vector<std::byte*> pages_, open_;
};

TEST(OpenPages, chunks_of_any_size_on_any_set_and_threads_give_the_same_bits) {
  constexpr uint32_t kTokens = 600;
  for (const KvType type : kTypesWithOpenPages) {
    for (const auto& [head_dim, latent_dim] : {std::pair(24u, 0u), {80u, 0u}, {48u, 32u}}) {
      const Heads heads{type, head_dim, latent_dim, latent_dim != 0 ? 1u : 2u};
      for (const uint32_t window : {0, 40}) {
        std::vector<float> expected;
        for (const std::string_view isa : cpu_isa_names()) {
          for (const uint32_t n_threads : {1, 3}) {
            if (isa == "scalar" && n_threads > 1) continue;  // slow
            const auto backend = backend_of(isa, n_threads);
            for (const uint32_t chunk : {512, 33, 7, 1}) {
              if (isa == "scalar" && chunk < 33) continue;
              OpenSequence sequence(*backend, heads, kTokens, chunk);
              const auto out = sequence.run(0, kTokens, 0, window);
              if (expected.empty()) expected = out;
              EXPECT_TRUE(same_bytes(out, expected))
                  << isa << " " << name_of(type) << " head_dim " << head_dim << " window " << window
                  << " chunk " << chunk << " threads " << n_threads;
            }
          }
        }
      }
    }
  }
}

TEST(OpenPages, a_context_of_several_waves_of_splits_gives_the_same_bits) {
  constexpr uint32_t kCached = 34 * kSplitTokens;
  const auto alone = backend_of("", 1);
  const auto threads = backend_of("", 3);
  for (const KvType type : kTypesWithOpenPages) {
    for (const uint32_t n : {1, 7, 40}) {
      const Heads heads{type, 16, 0, 1, 2};
      std::vector<std::vector<float>> out;
      for (Backend* backend : {alone.get(), threads.get()}) {
        OpenSequence sequence(*backend, heads, kCached + 40, 1000);
        sequence.run(0, kCached - 5, UINT32_MAX, 0);
        out.push_back(sequence.run(kCached - 5, kCached - 5 + n, 0, 0));
      }
      EXPECT_TRUE(same_bytes(out[0], out[1])) << name_of(type) << " rows " << n;
    }
  }
}

// K by channel is the kernel's result for a full open page; the rest is the same as in pages of
// each type.
TEST(OpenPages, what_is_written_is_what_pages_of_each_type_have) {
  const cpu::AttentionKernels& kernels = cpu::instruction_sets().front().attention;
  for (const KvType type : kTypesWithOpenPages) {
    for (const auto& [head_dim, latent_dim] : {std::pair(24u, 0u), {48u, 32u}}) {
      const Heads heads{type, head_dim, latent_dim};
      const KvGeometry geometry = heads.geometry();
      const auto backend = backend_of("", 2);
      OpenSequence sequence(*backend, heads, 40, 40);
      sequence.run(0, 40, UINT32_MAX, 0);
      OpenSequence rounded(*backend, heads, 40, 40, OpenSequence::Pages::kClosed);
      rounded.write_without_open_pages(40);
      const Heads as_open{kOpenType, head_dim, latent_dim};
      OpenSequence exact(*backend, as_open, 40, 40, OpenSequence::Pages::kClosed);
      exact.write_without_open_pages(40);
      for (size_t page = 0; page < 2; ++page) {
        EXPECT_EQ(0, std::memcmp(sequence.open_page(page), exact.page(page),
                                 backend->page_bytes(geometry.of_open_pages())));
        if (!geometry.keys_by_channel) {
          EXPECT_EQ(0, std::memcmp(sequence.page(page), rounded.page(page),
                                   backend->page_bytes(geometry)));
          continue;
        }
        const KvBlockLayout layout = layout_of(geometry);
        const KvBlockLayout plain = layout_of(rounded.geometry());
        for (uint32_t block = heads.n_kv_heads; block < 2 * heads.n_kv_heads; ++block) {
          const std::byte* written = sequence.page(page) + block * layout.head_bytes();
          EXPECT_EQ(0,
                    std::memcmp(written + layout.k_bytes(),
                                rounded.page(page) + block * plain.head_bytes() + plain.k_bytes(),
                                plain.v_bytes()));
          std::vector<std::byte> keys(layout.k_bytes(), std::byte{0xff});
          if (page == 0) {  // full page
            kernels.write_channels(
                layout, exact.page(0) + block * layout.open_layout().head_bytes(), keys.data());
          }
          EXPECT_EQ(0, std::memcmp(written, keys.data(), keys.size()));
        }
      }
    }
  }
}

TEST(OpenPages, attention_within_the_limits_takes_no_more_memory_than_was_reserved) {
  for (const KvType type : kTypesWithOpenPages) {
    for (const auto& [head_dim, latent_dim] : {std::pair(256u, 0u), {576u, 512u}}) {
      const Heads heads{type, head_dim, latent_dim, latent_dim != 0 ? 1u : 2u, 8};
      const auto backend = backend_of("", 3);
      const auto& memory = static_cast<HostMemory&>(backend->memory());
      const WorkLimits limits = {.n_rows = 40,
                                 .n_sequences = 1,
                                 .weights = {},
                                 .heads = {{heads.geometry(), heads.n_heads()}},
                                 .n_ctx = 1200};
      const uint64_t before = memory.held_bytes();
      backend->reserve(limits);
      const uint64_t reserved = memory.held_bytes();
      EXPECT_LE(reserved - before, backend->scratch_bytes(limits));
      {
        OpenSequence sequence(*backend, heads, 1200, 40);
        sequence.run(0, 1200, 1000, 0);
      }
      EXPECT_EQ(memory.held_bytes(), reserved);
    }
  }
}

}  // namespace
}  // namespace kvik
