#include "backend/cpu/attention/page_writer.h"

#include "backend/cpu/attention/token_copy.h"
#include "backend/cpu/scratch.h"
#include "backend/layout/kv_block.h"
#include "base/check.h"

namespace kvik::cpu {

void PageWriter::write(const KvTarget& kv, Rows k, Rows v) {
  const bool has_values = kv.geometry.latent_dim == 0;
  CHECK(k.n_cols == kv.geometry.n_kv_heads * kv.geometry.head_dim);
  CHECK(!has_values || (v.n_rows == k.n_rows && v.n_cols == k.n_cols));
  check_runs(kv, k.n_rows);
  for (const KvRun& run : kv.runs) {
    const auto write_row = [&](size_t row, uint32_t) {
      const size_t at = run.first_row + row;
      write_token(kv, run, static_cast<uint32_t>(run.first_position + row), k.data + at * k.stride,
                  has_values ? v.data + at * v.stride : nullptr);
    };
    if (run.n_rows > 1 && size_t{run.n_rows} * k.n_cols >= kFloatsWorthSharing) {
      pool_.run(run.n_rows, write_row);
    } else {
      for (size_t row = 0; row < run.n_rows; ++row) write_row(row, 0);
    }
    if (kv.geometry.keys_by_channel) write_channels(kv, run);
  }
}

// v is null for latent K.
void PageWriter::write_token(const KvTarget& kv, const KvRun& run, uint32_t token, const float* k,
                             const float* v) const {
  const KvBlockLayout layout = layout_of(kv.geometry);
  for (uint32_t head = 0; head < kv.geometry.n_kv_heads; ++head) {
    const size_t first = size_t{head} * kv.geometry.head_dim;
    const auto write = [&](const KvBlockLayout& as, std::byte* block) {
      kernels_.write_token(as, block, token % kPageTokens, k + first, v ? v + first : nullptr);
    };
    write(layout, run.pages[token / kPageTokens] + block_offset(kv, head));
    if (run.open.empty()) continue;
    write(layout.open_layout(), run.open[open_index(run, token)] + open_block_offset(kv, head));
  }
}

void PageWriter::write_channels(const KvTarget& kv, const KvRun& run) {
  const KvBlockLayout layout = layout_of(kv.geometry);
  const uint32_t first_page = run.first_position / kPageTokens;
  const uint32_t n_full = (run.first_position + run.n_rows) / kPageTokens - first_page;
  const uint32_t n_heads = kv.geometry.n_kv_heads;
  pool_.run(size_t{n_full} * n_heads, [&](size_t item, uint32_t) {
    const auto page = static_cast<uint32_t>(item / n_heads);
    const auto head = static_cast<uint32_t>(item % n_heads);
    kernels_.write_channels(layout, run.open[page] + open_block_offset(kv, head),
                            run.pages[first_page + page] + block_offset(kv, head));
  });
}

void PageWriter::write_entries(const EntryTarget& to, Rows entries) {
  CHECK(entries.n_cols == to.kv.geometry.head_dim && to.kv.geometry.n_kv_heads == 1);
  const KvBlockLayout layout = layout_of(to.kv.geometry);
  const TokenLayout of_token = token_layout(layout);
  block_.resize(layout.head_bytes());
  for (const KvRun& run : to.kv.runs) {
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const uint32_t token = run.first_position + i;
      if ((token + 1) % to.n_tokens != 0) continue;
      kernels_.write_token(layout, block_.data(), 0,
                           entries.data + size_t{run.first_row + i} * entries.stride, nullptr);
      std::byte* page = run.pages[token / kPageTokens] + block_offset(to.kv, 0);
      pack_token(of_token, block_.data(), 0,
                 page + to.slot(token / to.n_tokens) * of_token.slot_bytes());
    }
  }
}

}  // namespace kvik::cpu
