#pragma once

#include <cstdint>
#include <span>

#include "base/hash.h"
#include "tensor/tensor_view.h"

// A hash of a tensor's bytes that threads can share: of pieces of kDigestRows rows, then of the
// pieces' hashes in order.
namespace kvik {

inline constexpr uint32_t kDigestRows = 32;

// Hash of piece `piece`, the last one of what rows are left; that of the first knows the order of
// columns (TensorView::gather), too.
Hash128 digest_piece(const TensorView& tensor, uint64_t piece);
Hash128 digest_of_pieces(std::span<const Hash128> pieces);

// All of it at once.
Hash128 digest_of(const TensorView& tensor);

}  // namespace kvik
