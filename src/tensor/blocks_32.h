#pragma once

#include <cstddef>
#include <span>

// Rows of the block formats of 32 values (blocks.h) to and from f32.
namespace kvik {

void dequantize_q8_0(const std::byte* bytes, std::span<float> out);
void dequantize_q4_0(const std::byte* bytes, std::span<float> out);
void dequantize_q4_1(const std::byte* bytes, std::span<float> out);
void dequantize_q5_0(const std::byte* bytes, std::span<float> out);
void dequantize_q5_1(const std::byte* bytes, std::span<float> out);
void dequantize_iq4_nl(const std::byte* bytes, std::span<float> out);

void quantize_q8_0(std::span<const float> values, std::byte* out);
void quantize_q4_0(std::span<const float> values, std::byte* out);
void quantize_q4_1(std::span<const float> values, std::byte* out);
void quantize_q5_0(std::span<const float> values, std::byte* out);
void quantize_q5_1(std::span<const float> values, std::byte* out);
void quantize_iq4_nl(std::span<const float> values, std::byte* out);

}  // namespace kvik
