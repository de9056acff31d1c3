#pragma once

#include <cstdint>
#include <span>

#include "base/hash.h"
#include "tensor/tensor_view.h"

// Hash of a tensor's bytes that threads can compute in parallel: of pieces of kDigestRows rows,
// then of the hashes of the pieces in order.
namespace kvik {

inline constexpr uint32_t kDigestRows = 32;

// Returns the hash of piece `piece`, the last one of the remaining rows. That of the first piece
// includes the order of columns (TensorView::gather).
Hash128 digest_piece(const TensorView& tensor, uint64_t piece);
Hash128 digest_of_pieces(std::span<const Hash128> pieces);

// Returns the hash of the whole tensor.
Hash128 digest_of(const TensorView& tensor);

}  // namespace kvik
