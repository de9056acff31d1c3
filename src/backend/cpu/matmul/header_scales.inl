// Scales that a unit stores once, f16 [32] in its header: a policy of matmul_quants.inl.
template <uint32_t kBlocksOfUnit>
struct HeaderScales {
  static constexpr uint32_t kBlocks = kBlocksOfUnit, kHeaderBytes = 4 * kLanes, kBytes = 0;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) scales[h] = load_f16(p + h * kLanes);
    }
    F32x16 scale(const uint8_t*, uint32_t, uint32_t h) const { return scales[h]; }
  };
};
