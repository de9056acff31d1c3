#include <array>

#include "format/synthetic.h"

namespace kvik {
namespace {

// clang-format off
// name, architecture, layers, model, heads, KV heads, head, ffn, context, rope base, window, vocabulary, tied
constexpr std::array<ModelPreset, 15> kPresets = {{
    {"tinyllama-1.1b", "llama",  22, 2048, 32, 4,  64,  5632,   2048, 1e4f,    0,  32000, false},
    {"llama-3.2-1b",   "llama",  16, 2048, 32, 8,  64,  8192, 131072, 5e5f,    0, 128256, true},
    {"llama-3.1-8b",   "llama",  32, 4096, 32, 8, 128, 14336, 131072, 5e5f,    0, 128256, false},
    {"mistral-7b",     "llama",  32, 4096, 32, 8, 128, 14336,  32768, 1e4f, 4096,  32000, false},
    {"qwen2.5-0.5b",   "qwen2",  24,  896, 14, 2,  64,  4864,  32768, 1e6f,    0, 151936, true},
    {"qwen3-0.6b",     "qwen3",  28, 1024, 16, 8, 128,  3072,  40960, 1e6f,    0, 151936, true},
    {"gemma2-2b",      "gemma2", 26, 2304,  8, 4, 256,  9216,   8192, 1e4f, 4096, 256000, true},
    {"gemma3-1b",      "gemma3", 26, 1152,  4, 1, 256,  6912,  32768, 1e6f,  512, 262144, true},
    {"test-llama",     "llama",   2,   64,  4, 2,  16,   160,   2048, 1e4f,    0,    260, false},
    {"test-mqa",       "llama",   3,   96,  6, 1,  16,   224,   2048, 1e4f,    0,    260, false},
    {"test-mha",       "llama",   2,  128,  4, 4,  32,   352,   2048, 1e4f,    0,    260, false},
    {"test-qwen2",     "qwen2",   2,   64,  4, 2,  16,   160,   2048, 1e6f,    0,    260, false},
    {"test-qwen3",     "qwen3",   2,   64,  4, 2,  32,   160,   2048, 1e6f,    0,    260, false},
    {"test-gemma2",    "gemma2",  4,   64,  4, 2,  32,   192,   2048, 1e4f,   32,    260, true},
    {"test-gemma3",    "gemma3",  6,   64,  4, 1,  32,   192,   2048, 1e6f,   32,    260, true},
}};
// clang-format on

}  // namespace

std::span<const ModelPreset> model_presets() { return kPresets; }

}  // namespace kvik
