#pragma once

#include <cstddef>
#include <cstdint>

// Where the levels of 32 k lie in a panel of 32 columns, for the packed forms that have more than
// one part. packed_matrix.h states which type has which.
namespace kvik::cpu {

inline constexpr size_t kPackedNibbleBytes = 512;  // [4][32][4] bytes
inline constexpr size_t kPackedPairBytes = 256;    // [2][32][4] bytes
inline constexpr size_t kPackedBitBytes = 128;     // [8][32][4] bits

// The low four bits of levels [32], as in q4_0. at: where the columns' nibbles begin.
void put_nibbles(const uint8_t* levels, uint32_t column, std::byte* at);
int nibble_at(const std::byte* at, uint32_t column, uint32_t k);

// The bits 2^shift and 2^(shift + 1) of levels [32], as q6_k's upper ones; onto zeros.
void put_pairs(const uint8_t* levels, int shift, uint32_t column, std::byte* at);
int pair_at(const std::byte* at, uint32_t column, uint32_t k);

// The bit 2^shift of levels [32], as q5_k's fifth ones; onto zeros.
void put_bits(const uint8_t* levels, int shift, uint32_t column, std::byte* at);
int bit_at(const std::byte* at, uint32_t column, uint32_t k);

}  // namespace kvik::cpu
