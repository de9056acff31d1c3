#include "tensor/tensor_digest.h"

#include <algorithm>
#include <vector>

namespace kvik {

Hash128 digest_piece(const TensorView& tensor, uint64_t piece) {
  const uint64_t first = piece * kDigestRows;
  const uint64_t n = std::min<uint64_t>(kDigestRows, tensor.n_rows - first);
  const Hash128 rows =
      xxh3_128(tensor.bytes.subspan(first * tensor.row_bytes(), n * tensor.row_bytes()));
  if (piece != 0) return rows;
  std::vector<Hash128> parts = {rows};
  if (!tensor.gather.empty()) parts.push_back(xxh3_128(std::as_bytes(tensor.gather)));
  if (tensor.scale != 1) parts.push_back(xxh3_128(std::as_bytes(std::span(&tensor.scale, 1))));
  return parts.size() == 1 ? rows : digest_of_pieces(parts);
}

Hash128 digest_of_pieces(std::span<const Hash128> pieces) {
  return xxh3_128(std::as_bytes(pieces));
}

Hash128 digest_of(const TensorView& tensor) {
  std::vector<Hash128> pieces;
  for (uint64_t piece = 0; piece * kDigestRows < tensor.n_rows; ++piece) {
    pieces.push_back(digest_piece(tensor, piece));
  }
  return digest_of_pieces(pieces);
}

}  // namespace kvik
