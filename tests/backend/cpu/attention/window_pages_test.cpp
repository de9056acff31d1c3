#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/page_kinds.h"
#include "backend/random_matrix.h"

// Pages that no row of a run can see may have been released: their entries are null.
namespace kvik {
namespace {

using testing::kPageKinds;
using testing::OwnedRows;
using testing::PageKind;
using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kHeadDim = 20, kKvHeads = 2, kHeads = 6;

std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

// One sequence whose pages can be removed.
class WindowedSequence {
 public:
  WindowedSequence(Backend& backend, PageKind kind, uint32_t n_tokens)
      : backend_(backend),
        kind_(kind),
        geometry_{.type = kind.type,
                  .n_layers = 2,
                  .n_kv_heads = kKvHeads,
                  .head_dim = kHeadDim,
                  .keys_by_channel = kind.keys_by_channel()},
        n_tokens_(n_tokens),
        keys_(random_floats(size_t{n_tokens} * kKvHeads * kHeadDim, 1)),
        values_(random_floats(size_t{n_tokens} * kKvHeads * kHeadDim, 2)),
        queries_(random_floats(size_t{n_tokens} * kHeads * kHeadDim, 3)) {
    for (uint32_t first = 0; first < n_tokens; first += kPageTokens) {
      buffers_.push_back(backend.memory().allocate(backend.page_bytes(geometry_)));
      pages_.push_back(buffers_.back().data());
    }
    const KvGeometry open = geometry_.of_open_pages();
    for (size_t i = 0; kind.open && i < pages_.size(); ++i) {
      buffers_.push_back(backend.memory().allocate(backend.page_bytes(open)));
      open_.push_back(buffers_.back().data());
    }
  }

  // Writes and attends n tokens, beginning with `first`.
  std::vector<float> step(uint32_t first, uint32_t n, uint32_t window) {
    KvRun run{pages_, first, 0, n};
    if (kind_.open) run.open = std::span(open_).subspan(first / kPageTokens);
    const KvTarget target{geometry_, 1, {&run, 1}};
    OwnedRows k(backend_.memory(), n, kKvHeads * kHeadDim, rows(keys_, kKvHeads, first, n));
    OwnedRows v(backend_.memory(), n, kKvHeads * kHeadDim, rows(values_, kKvHeads, first, n));
    OwnedRows q(backend_.memory(), n, kHeads * kHeadDim, rows(queries_, kHeads, first, n));
    OwnedRows out(backend_.memory(), n, kHeads * kHeadDim);
    backend_.write_kv(target, k.rows, v.rows);
    backend_.attention(target, {.n_heads = kHeads, .scale = 0.25f, .window = window}, q.rows,
                       out.rows);
    return out.values();
  }

  // Removes the pages that rows from `next` on cannot see.
  void slide(uint32_t next, uint32_t window) {
    const uint32_t first_seen = next + 1 > window ? next + 1 - window : 0;
    for (uint32_t page = 0; page < first_seen / kPageTokens; ++page) pages_[page] = nullptr;
  }

  // Runs all tokens in chunks, with or without releasing pages before each chunk.
  enum class Pages { kKept, kSlid };
  std::vector<float> run_in_chunks(uint32_t chunk, uint32_t window, Pages pages) {
    std::vector<float> all;
    for (uint32_t first = 0; first < n_tokens_; first += chunk) {
      if (pages == Pages::kSlid) slide(first, window);
      const auto part = step(first, std::min(chunk, n_tokens_ - first), window);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  static std::vector<float> rows(const std::vector<float>& all, uint32_t heads, uint32_t first,
                                 uint32_t n) {
    const size_t width = size_t{heads} * kHeadDim;
    return {all.begin() + first * width, all.begin() + (first + n) * width};
  }

  Backend& backend_;
  const PageKind kind_;
  const KvGeometry geometry_;
  const uint32_t n_tokens_;
  std::vector<Buffer> buffers_;
  std::vector<std::byte*> pages_, open_;
  std::vector<float> keys_, values_, queries_;
};

TEST(WindowPages, pages_that_slid_out_of_the_window_are_never_touched) {
  for (const std::string_view isa : cpu_isa_names()) {
    for (const PageKind kind : kPageKinds) {
      for (const uint32_t window : {1, 33, 520}) {
        const auto backend = backend_of(isa, isa == "scalar" ? 1 : 3);
        const uint32_t n_tokens = 700;
        WindowedSequence kept(*backend, kind, n_tokens);
        WindowedSequence slid(*backend, kind, n_tokens);
        const std::vector<float> expected =
            kept.run_in_chunks(350, window, WindowedSequence::Pages::kKept);
        EXPECT_TRUE(
            same_bytes(slid.run_in_chunks(70, window, WindowedSequence::Pages::kSlid), expected))
            << isa << " " << name_of(kind) << " window " << window;
      }
    }
  }
}

TEST(WindowPages, decoding_may_release_the_page_before_the_window) {
  const auto backend = backend_of("", 2);
  for (const PageKind kind : kPageKinds) {
    WindowedSequence kept(*backend, kind, 150);
    WindowedSequence slid(*backend, kind, 150);
    const std::vector<float> expected = kept.run_in_chunks(150, 40, WindowedSequence::Pages::kKept);
    EXPECT_TRUE(same_bytes(slid.run_in_chunks(1, 40, WindowedSequence::Pages::kSlid), expected))
        << name_of(kind);
  }
}

}  // namespace
}  // namespace kvik
