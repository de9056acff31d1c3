#include "format/synthetic/synthetic.h"

namespace kvik {
namespace {

// What the presets have beyond a plain geometry.
constexpr auto kOne = RopeDivisors::kOneSet;
constexpr auto kTwo = RopeDivisors::kTwoSets;

// clang-format off
// name, architecture, layers, model, heads, KV heads, head, ffn, context, rope base, window, vocabulary, tied
constexpr ModelPreset kPresets[] = {
    {{"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64, 5632, 2048, 1e4f, 0, 32000, false}},
    {{"llama-2-7b", "llama", 32, 4096, 32, 32, 128, 11008, 4096, 1e4f, 0, 32000, false}},
    {{"llama-2-13b", "llama", 40, 5120, 40, 40, 128, 13824, 4096, 1e4f, 0, 32000, false}},
    {{"llama-2-70b", "llama", 80, 8192, 64, 8, 128, 28672, 4096, 1e4f, 0, 32000, false}},
    {{"llama-3-8b", "llama", 32, 4096, 32, 8, 128, 14336, 8192, 5e5f, 0, 128256, false}},
    {{"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 131072, 5e5f, 0, 128256, false}, {}, {.divisors = kOne}},
    {{"llama-3.1-70b", "llama", 80, 8192, 64, 8, 128, 28672, 131072, 5e5f, 0, 128256, false}, {}, {.divisors = kOne}},
    {{"llama-3.1-405b", "llama", 126, 16384, 128, 8, 128, 53248, 131072, 5e5f, 0, 128256, false}, {}, {.divisors = kOne}},
    {{"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 131072, 5e5f, 0, 128256, true}, {}, {.divisors = kOne}},
    {{"llama-3.2-3b", "llama", 28, 3072, 24, 8, 128, 8192, 131072, 5e5f, 0, 128256, true}, {}, {.divisors = kOne}},
    {{"mistral-7b", "llama", 32, 4096, 32, 8, 128, 14336, 32768, 1e4f, 4096, 32000, false}},
    {{"mistral-nemo-12b", "llama", 40, 5120, 32, 8, 128, 14336, 131072, 1e6f, 0, 131072, false}},
    {{"mistral-small-24b", "llama", 40, 5120, 32, 8, 128, 32768, 32768, 1e8f, 0, 131072, false}},
    {{"mixtral-8x7b", "llama", 32, 4096, 32, 8, 128, 14336, 32768, 1e6f, 0, 32000, false}, {8, 2, 14336}},
    {{"mixtral-8x22b", "llama", 56, 6144, 48, 8, 128, 16384, 65536, 1e6f, 0, 32000, false}, {8, 2, 16384}},
    {{"qwen1.5-moe-a2.7b", "qwen2moe", 24, 2048, 16, 16, 128, 5632, 8192, 1e6f, 0, 151936, false}, {60, 4, 1408, 5632}},
    {{"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 32768, 1e6f, 0, 151936, true}},
    {{"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 128, 8960, 32768, 1e6f, 0, 151936, true}},
    {{"qwen2.5-3b", "qwen2", 36, 2048, 16, 2, 128, 11008, 32768, 1e6f, 0, 151936, true}},
    {{"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 32768, 1e6f, 0, 152064, false}},
    {{"qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 128, 13824, 32768, 1e6f, 0, 152064, false}},
    {{"qwen2.5-32b", "qwen2", 64, 5120, 40, 8, 128, 27648, 32768, 1e6f, 0, 152064, false}},
    {{"qwen2.5-72b", "qwen2", 80, 8192, 64, 8, 128, 29568, 32768, 1e6f, 0, 152064, false}},
    {{"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 40960, 1e6f, 0, 151936, true}},
    {{"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 40960, 1e6f, 0, 151936, true}},
    {{"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 40960, 1e6f, 0, 151936, true}},
    {{"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 40960, 1e6f, 0, 151936, false}},
    {{"qwen3-14b", "qwen3", 40, 5120, 40, 8, 128, 17408, 40960, 1e6f, 0, 151936, false}},
    {{"qwen3-32b", "qwen3", 64, 5120, 64, 8, 128, 25600, 40960, 1e6f, 0, 151936, false}},
    {{"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 6144, 40960, 1e6f, 0, 151936, false}, {128, 8, 768}},
    {{"qwen3-235b-a22b", "qwen3moe", 94, 4096, 64, 4, 128, 12288, 40960, 1e6f, 0, 151936, false}, {128, 8, 1536}},
    {{"gemma2-2b", "gemma2", 26, 2304, 8, 4, 256, 9216, 8192, 1e4f, 4096, 256000, true}},
    {{"gemma2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 8192, 1e4f, 4096, 256000, true}},
    {{"gemma2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 8192, 1e4f, 4096, 256000, true}},
    {{"gemma3-1b", "gemma3", 26, 1152, 4, 1, 256, 6912, 32768, 1e6f, 512, 262144, true}},
    {{"gemma3-4b", "gemma3", 34, 2560, 8, 4, 256, 10240, 131072, 1e6f, 1024, 262208, true}, {}, {.scaling = "linear", .factor = 8.0f}},
    {{"gemma3-12b", "gemma3", 48, 3840, 16, 8, 256, 15360, 131072, 1e6f, 1024, 262208, true}, {}, {.scaling = "linear", .factor = 8.0f}},
    {{"gemma3-27b", "gemma3", 62, 5376, 32, 16, 128, 21504, 131072, 1e6f, 1024, 262208, true}, {}, {.scaling = "linear", .factor = 8.0f}},
    {{"phi-3-mini", "phi3", 32, 3072, 32, 32, 96, 8192, 131072, 1e4f, 0, 32064, false}, {}, {.n_ctx_original = 4096, .divisors = kTwo}},
    {{"phi-3-medium", "phi3", 40, 5120, 40, 10, 128, 17920, 131072, 1e4f, 0, 32064, false}, {}, {.n_ctx_original = 4096, .divisors = kTwo}},
    {{"phi-4", "phi3", 40, 5120, 40, 10, 128, 17920, 16384, 2.5e5f, 0, 100352, false}},
    {{"phi-4-mini", "phi3", 32, 3072, 24, 8, 128, 8192, 131072, 1e4f, 0, 200064, true}, {}, {.n_dims = 96, .n_ctx_original = 4096, .divisors = kTwo}},
    {{"granite-3.3-2b", "granite", 40, 2048, 32, 8, 64, 8192, 131072, 1e7f, 0, 49159, true}, {}, {}, {12.0f, 0.22f, 0.015625f, 8.0f}},
    {{"granite-3.3-8b", "granite", 40, 4096, 32, 8, 128, 12800, 131072, 1e7f, 0, 49159, true}, {}, {}, {12.0f, 0.22f, 0.0078125f, 16.0f}},
    {{"olmo2-1b", "olmo2", 16, 2048, 16, 16, 128, 8192, 4096, 5e5f, 0, 100352, false}},
    {{"olmo2-7b", "olmo2", 32, 4096, 32, 32, 128, 11008, 4096, 5e5f, 0, 100352, false}},
    {{"olmo2-13b", "olmo2", 40, 5120, 40, 40, 128, 13824, 4096, 5e5f, 0, 100352, false}},
    {{"olmo2-32b", "olmo2", 64, 5120, 40, 8, 128, 27648, 4096, 5e5f, 0, 100352, false}},
    {{"ministral-3-8b", "mistral3", 34, 4096, 32, 8, 128, 14336, 262144, 1e6f, 0, 131072, false}, {}, {.scaling = "yarn", .factor = 16.0f, .n_ctx_original = 16384, .log_multiplier = 1.0f}, {}, 0.1f},
    {{"glm-4.5-air", "glm4moe", 46, 4096, 96, 8, 128, 10944, 131072, 1e6f, 0, 151552, false}, {128, 8, 1408, 1408, 1, 1.0f, true}, {.n_dims = 64}, {}, 0, false},
    {{"minimax-m2", "minimax-m2", 62, 3072, 48, 8, 128, 1536, 196608, 5e6f, 0, 200064, false}, {256, 8, 1536}, {.n_dims = 64}},
    {{"gpt-oss-20b", "gpt-oss", 24, 2880, 64, 8, 64, 2880, 131072, 1.5e5f, 128, 201088, false}, {32, 4, 2880}, {.scaling = "yarn", .factor = 32.0f, .n_ctx_original = 4096}},
    {{"gpt-oss-120b", "gpt-oss", 36, 2880, 64, 8, 64, 2880, 131072, 1.5e5f, 128, 201088, false}, {128, 4, 2880}, {.scaling = "yarn", .factor = 32.0f, .n_ctx_original = 4096}},
    {{"deepseek-v2-lite", "deepseek2", 27, 2048, 16, 1, 576, 10944, 163840, 1e4f, 0, 102400, false}, {64, 6, 1408, 2816, 1, 1.0f}, {.scaling = "yarn", .factor = 40.0f, .n_ctx_original = 4096, .log_multiplier = 0.0707f}, {}, 0, true, false, {512, 0, 128, 64, 128}},
    {{"deepseek-v3", "deepseek2", 61, 7168, 128, 1, 576, 18432, 163840, 1e4f, 0, 129280, false}, {256, 8, 2048, 2048, 3, 2.5f, true, true, 8, 4}, {.scaling = "yarn", .factor = 40.0f, .n_ctx_original = 4096, .log_multiplier = 0.1f}, {}, 0, true, true, {512, 1536, 128, 64, 128}},
    {{"kimi-k2", "deepseek2", 61, 7168, 64, 1, 576, 18432, 262144, 5e4f, 0, 163840, false}, {384, 8, 2048, 2048, 1, 2.827f, true, true}, {.scaling = "yarn", .factor = 64.0f, .n_ctx_original = 4096, .log_multiplier = 0.1f, .beta_fast = 1.0f}, {}, 0, true, true, {512, 1536, 128, 64, 128}},
    {{"glm-4.7-flash", "deepseek2", 47, 2048, 20, 1, 576, 10240, 202752, 1e6f, 0, 154880, false}, {64, 4, 1536, 1536, 1, 1.8f, true, true}, {}, {}, 0, true, true, {512, 768, 192, 64, 256}},
    {{"test-llama", "llama", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 0, 260, false}},
    {{"test-mqa", "llama", 3, 96, 6, 1, 16, 224, 2048, 1e4f, 0, 260, false}},
    {{"test-mha", "llama", 2, 128, 4, 4, 32, 352, 2048, 1e4f, 0, 260, false}},
    {{"test-linear", "llama", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 0, 260, false}, {}, {.scaling = "linear", .factor = 4.0f}},
    {{"test-llama3", "llama", 2, 64, 4, 2, 32, 160, 2048, 5e5f, 0, 260, false}, {}, {.divisors = kOne}},
    {{"test-yarn", "qwen2", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 0, 260, false}, {}, {.scaling = "yarn", .factor = 4.0f, .n_ctx_original = 512}},
    {{"test-mistral", "llama", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 32, 260, false}},
    {{"test-mixtral", "llama", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 0, 260, false}, {4, 2, 160}},
    {{"test-qwen2", "qwen2", 2, 64, 4, 2, 16, 160, 2048, 1e6f, 0, 260, false}},
    {{"test-qwen2moe", "qwen2moe", 2, 64, 4, 2, 16, 160, 2048, 1e6f, 0, 260, false}, {6, 2, 96, 128}},
    {{"test-qwen3", "qwen3", 2, 64, 4, 2, 32, 160, 2048, 1e6f, 0, 260, false}},
    {{"test-qwen3moe", "qwen3moe", 2, 64, 4, 2, 32, 160, 2048, 1e6f, 0, 260, false}, {8, 3, 96}},
    {{"test-dense-first", "qwen2moe", 3, 64, 4, 2, 16, 160, 2048, 1e6f, 0, 260, false}, {6, 2, 96, 128, 1}},
    {{"test-gemma2", "gemma2", 4, 64, 4, 2, 32, 192, 2048, 1e4f, 32, 260, true}},
    {{"test-gemma3", "gemma3", 6, 64, 4, 1, 32, 192, 2048, 1e6f, 32, 260, true}},
    {{"test-phi3", "phi3", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 60, 260, false}, {}, {.n_dims = 12, .n_ctx_original = 512, .divisors = kTwo}},
    {{"test-granite", "granite", 2, 64, 4, 2, 16, 160, 2048, 1e4f, 0, 260, false}, {}, {}, {12.0f, 0.22f, 0.2f, 8.0f}},
    {{"test-granitemoe", "granitemoe", 2, 64, 4, 2, 16, 96, 2048, 1e4f, 0, 260, false}, {6, 2, 96}, {}, {12.0f, 0.22f, 0.2f, 8.0f}},
    {{"test-olmo2", "olmo2", 2, 64, 4, 2, 16, 160, 2048, 5e5f, 0, 260, false}},
    {{"test-ministral3", "mistral3", 2, 64, 4, 2, 16, 160, 128, 1e6f, 0, 260, false}, {}, {.scaling = "yarn", .factor = 4.0f, .n_ctx_original = 32, .log_multiplier = 1.0f}, {}, 0.1f},
    {{"test-mla", "deepseek2", 3, 64, 4, 1, 48, 160, 2048, 1e4f, 0, 260, false}, {16, 3, 96, 96, 1, 2.5f, true, true, 4, 2}, {.scaling = "yarn", .factor = 4.0f, .n_ctx_original = 512, .log_multiplier = 0.1f}, {}, 0, true, true, {32, 24, 16, 16, 24}},
    {{"test-mla-lite", "deepseek2", 27, 64, 4, 1, 56, 160, 2048, 1e4f, 0, 260, false}, {8, 3, 96, 192, 1, 1.0f}, {.scaling = "yarn", .factor = 4.0f, .n_ctx_original = 512, .log_multiplier = 0.0707f}, {}, 0, true, false, {48, 0, 16, 8, 16}},
    {{"test-glm4moe", "glm4moe", 3, 64, 4, 2, 16, 160, 2048, 1e6f, 0, 260, false}, {8, 3, 96, 96, 1, 1.5f, true}, {.n_dims = 8}},
    {{"test-minimaxm2", "minimax-m2", 2, 64, 4, 2, 16, 96, 2048, 5e6f, 0, 260, false}, {8, 3, 96}, {.n_dims = 8}},
    {{"test-gptoss", "gpt-oss", 4, 64, 4, 2, 16, 96, 2048, 1.5e5f, 32, 260, false}, {8, 3, 96}, {.scaling = "yarn", .factor = 4.0f, .n_ctx_original = 124}},
};
// clang-format on

}  // namespace

std::span<const ModelPreset> model_presets() { return kPresets; }

}  // namespace kvik
