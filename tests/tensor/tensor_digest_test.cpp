#include "tensor/tensor_digest.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace kvik {
namespace {

struct Matrix {
  explicit Matrix(uint64_t n_rows) : bytes(n_rows * 12), view{ElementType::kF32, n_rows, 3, bytes} {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  }
  std::vector<std::byte> bytes;
  TensorView view;
};

TEST(TensorDigest, pieces_hashed_in_any_order_give_the_digest_of_the_whole) {
  for (const uint64_t n_rows : {1, 31, 32, 33, 100}) {
    const Matrix matrix(n_rows);
    std::vector<Hash128> pieces((n_rows + kDigestRows - 1) / kDigestRows);
    for (size_t i = pieces.size(); i-- > 0;) pieces[i] = digest_piece(matrix.view, i);
    EXPECT_EQ(digest_of_pieces(pieces), digest_of(matrix.view)) << n_rows;
  }
}

TEST(TensorDigest, every_byte_counts) {
  Matrix matrix(70);
  const Hash128 before = digest_of(matrix.view);
  for (size_t i = 0; i < matrix.bytes.size(); ++i) {
    matrix.bytes[i] ^= std::byte{1};
    EXPECT_NE(digest_of(matrix.view), before) << i;
    matrix.bytes[i] ^= std::byte{1};
  }
  EXPECT_EQ(digest_of(matrix.view), before);
}

TEST(TensorDigest, the_order_of_columns_counts_beside_a_scale) {
  Matrix matrix(70);
  matrix.view.scale = 0.5f;
  const Hash128 before = digest_of(matrix.view);
  std::vector<uint32_t> order(matrix.view.n_cols);
  std::iota(order.rbegin(), order.rend(), 0u);
  matrix.view.gather = order;
  const Hash128 reversed = digest_of(matrix.view);
  EXPECT_NE(reversed, before);
  std::swap(order[0], order[1]);
  EXPECT_NE(digest_of(matrix.view), reversed);
  matrix.view.scale = 0.25f;
  std::swap(order[0], order[1]);
  EXPECT_NE(digest_of(matrix.view), reversed);
}

TEST(TensorDigest, the_order_of_columns_counts) {
  Matrix matrix(70);
  const Hash128 before = digest_of(matrix.view);
  std::vector<uint32_t> order(matrix.view.n_cols);
  std::iota(order.rbegin(), order.rend(), 0u);
  matrix.view.gather = order;
  const Hash128 reversed = digest_of(matrix.view);
  EXPECT_NE(reversed, before);
  std::swap(order[0], order[1]);
  EXPECT_NE(digest_of(matrix.view), reversed);
}

}  // namespace
}  // namespace kvik
