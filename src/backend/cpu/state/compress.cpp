#include <algorithm>
#include <array>

#include "backend/cpu/state/state.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

constexpr uint32_t kEntryPiece = 128;  // channels per item; a multiple of the lanes
constexpr uint32_t kParts = 2;         // at most

float* columns_of(Rows x, size_t row, uint32_t first) { return x.data + row * x.stride + first; }

}  // namespace

void State::compress(const EntryShape& shape, std::span<const StateRun> runs,
                     std::span<const uint32_t> positions, Rows x, Rows out) {
  const uint32_t dim = shape.dim;
  const uint32_t n_own = shape.n_parts() * dim;  // columns of the values, and of the gates
  CHECK(x.n_cols == 2 * n_own && out.n_cols == dim && x.n_rows == out.n_rows);
  CHECK(positions.size() >= x.n_rows);
  const uint32_t n_pieces = (dim + kEntryPiece - 1) / kEntryPiece;
  pool_.run(runs.size() * n_pieces, [&](size_t item, uint32_t) {
    const StateRun& run = runs[item / n_pieces];
    const uint32_t first = static_cast<uint32_t>(item % n_pieces) * kEntryPiece;
    const uint32_t n = std::min(kEntryPiece, dim - first);
    std::array<float, size_t{3} * kParts * kEntryPiece> of_drafts;
    float* state = run.state + first;
    uint32_t step = dim;
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      if (i == run.n_kept()) {
        for (uint32_t part = 0; part < 3 * shape.n_parts(); ++part) {
          std::copy_n(state + size_t{part} * dim, n, of_drafts.data() + part * kEntryPiece);
        }
        state = of_drafts.data();
        step = kEntryPiece;
      }
      const size_t row = size_t{run.first_row} + i;
      const uint32_t place = positions[row] % shape.n_tokens;
      const bool is_last = place + 1 == shape.n_tokens;
      const float* values = columns_of(x, row, first);
      const float* biases = shape.positions + size_t{place} * n_own + first;
      const uint32_t own = shape.overlaps ? dim : 0;
      float* result = columns_of(out, row, first);
      if (!is_last) std::fill_n(result, n, 0.0f);
      kernels_.compress({.state = state,
                         .step = step,
                         .values = values + own,
                         .gates = values + n_own + own,
                         .biases = biases + own,
                         .next_values = shape.overlaps ? values : nullptr,
                         .next_gates = values + n_own,
                         .next_biases = biases,
                         .n_channels = n,
                         .begins = place == 0,
                         .follows = positions[row] >= shape.n_tokens,
                         .out = is_last ? result : nullptr});
    }
  });
}

}  // namespace kvik::cpu
