#pragma once

#include <cstdint>

// Constants of panels, the units of a packed matrix (panel_matrix.h).
namespace kvik {

// Output columns of a panel.
inline constexpr uint32_t kPanelColumns = 32;

// Levels of iq4_nl and iq4_xs plus 128.
inline constexpr uint8_t kIq4Operands[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};

// Levels of mxfp4 plus 128.
inline constexpr uint8_t kFp4Operands[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                             128, 127, 126, 125, 124, 122, 120, 116};

// Levels of nvfp4 (the same as those of mxfp4) plus 32.
inline constexpr uint8_t kNvFp4Operands[16] = {32, 33, 34, 35, 36, 38, 40, 44,
                                               32, 31, 30, 29, 28, 26, 24, 20};

}  // namespace kvik
