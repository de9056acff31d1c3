#pragma once

#include <cstdint>
#include <span>

#include "base/hash.h"
#include "tensor/tensor_view.h"

// Hash of the bytes of a tensor that threads can compute in parallel. It is the hash of the hashes
// of all pieces of kDigestRows rows, in order.
namespace kvik {

inline constexpr uint32_t kDigestRows = 32;

// Returns the hash of piece `piece`; the last piece has the remaining rows. The hash of the first
// piece includes the order of columns (TensorView::gather), if there is one, and TensorView::scale,
// if it is not 1.
Hash128 digest_piece(const TensorView& tensor, uint64_t piece);
// Returns the hash of a tensor from the hashes of its pieces.
Hash128 digest_of_pieces(std::span<const Hash128> pieces);

// Returns the hash of the whole tensor.
Hash128 digest_of(const TensorView& tensor);

}  // namespace kvik
