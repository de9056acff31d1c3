#include "main/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <utility>

#include "base/log.h"

namespace kvik {
namespace {

// Returns the KV type that has this name in Kvik or in llama.cpp.
std::optional<KvType> find_kv_type(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "q8_0") return KvType::kInt8;
  if (name == "q4_0") return KvType::kInt4;
  return kv_type_from_name(name);
}

template <class Type>
Words kv_type_words(Type& type) {
  return {.type = "TYPE", .read = [&type](const std::string& name) {
            const auto found = find_kv_type(name);
            if (found) type = *found;
            if (found) return std::string();
            const bool is_half = name == "f16" || name == "fp16";
            return fmt::format("'{}' is not a KV type{}; expected {}", name,
                               is_half ? ", bf16 takes as much memory" : "", kKvTypeNames);
          }};
}

// Returns a parser for a context length.
Words as_context(ModelOptions& options) {
  Words words = as_count(options.n_ctx);
  words.type = "N|auto";
  words.read = [&options, read = std::move(words.read)](const std::string& text) {
    options.chooses_ctx = text == "auto";
    return read(options.chooses_ctx ? "0" : text);
  };
  return words;
}

// Returns a parser for llama.cpp's number of GPU layers. Kvik computes all layers on one device, so
// any value other than 0 and auto produces a warning. The value is parsed more than once, but the
// warning is printed once.
Words as_gpu_layers() {
  const auto has_warned = std::make_shared<bool>(false);
  return {.type = "N", .read = [has_warned](const std::string& text) -> std::string {
            int n_layers = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, n_layers);
            const bool is_number = error == std::errc() && rest == end;
            if (!is_number && text != "all" && text != "auto") {
              return fmt::format("'{}' is not a number of layers", text);
            }
            const bool asks_for_gpu = text != "0" && text != "auto";
            if (asks_for_gpu && !std::exchange(*has_warned, true)) {
              log::warn(
                  "--n-gpu-layers {} changes nothing: --device (cpu or cuda) computes all layers",
                  text);
            }
            return "";
          }};
}

}  // namespace

Words as_kv_type(std::optional<KvType>& type) { return kv_type_words(type); }

void add_model_flags(Flags& flags, ModelOptions& options) {
  flags.add(
      "Model",
      {
          Flag("-m,--model,MODEL", &options.model,
               "a .gguf file, a Hugging Face folder, a stored model (kvik list), 'demo' (the "
               "embedded "
               "model) or synthetic:PRESET[:TYPE] (random weights). hf.co/ORG/REPO[:QUANT] (or -hf "
               "ORG/REPO[:QUANT]), ollama://MODEL[:TAG] and https://HOST/FILE.gguf are downloaded "
               "if "
               "they are not stored")
              .is_model(&options.name)
              .required(),
          {"-c,--ctx,--ctx-size", as_context(options),
           "context length in tokens; 0: the length that the model was trained with; auto: that, "
           "and for serve and run no more than fits in the free memory (default: auto)"},
          Flag("-t,--threads", &options.n_threads,
               "number of compute threads (default: one per physical core that this process may "
               "use)")
              .between(1u, 1024u),
          Flag(
              "--isa", &options.isa,
              "instruction set of the CPU kernels, one that --version lists (default: the best). "
              "All compute the same bits, except that avx512bf16 and amx round activations to bf16 "
              "where weights are bf16")
              .called("NAME"),
          Flag("--huge-pages",
               Words{.type = "on|off",
                     .read =
                         [&options](const std::string& text) {
                           using enum HugePages;
                           options.huge_pages = text == "on" ? kOn : kOff;
                           return std::string();
                         }},
               "use memory pages of 2 MiB (default: on)")
              .one_of({"on", "off"}),
          Flag(
              "--per-layer-embeddings",
              Words{.type = "memory|file",
                    .read =
                        [&options](const std::string& text) {
                          options.leaves_tables_in_file = text == "file";
                          return std::string();
                        }},
              "where tables of per-layer embeddings (Gemma 3n and 4) and of n-grams (Qwen3.8) are; "
              "file: they stay in the model's file, which must not change, and each step reads "
              "its rows (default: memory)")
              .one_of({"memory", "file"}),
          {"--device",
           Words{.type = "cpu|cuda[:N]",
                 .read =
                     [&options](const std::string& name) {
                       const auto gpu = gpu_from_name(name);
                       options.gpu = gpu.value_or(std::nullopt);
                       return gpu ? std::string() : gpu.error().message;
                     }},
           "device that computes: the CPU, or GPU number N (default: cpu). CUDA is experimental "
           "and has not been measured on a GPU yet"},
          {"--n-gpu-layers", as_gpu_layers(),
           "accepted for llama.cpp's users and ignored: --device computes all layers"},
      });
  flags.add(
      "Cache",
      {
          {"--kv-type", kv_type_words(options.kv_type),
           fmt::format("type of the KV cache: {}; q8_0 means int8, q4_0 means int4 (default: {})",
                       kKvTypeNames, name_of(options.kv_type))},
      });
}

void add_adapter_flag(Flags& flags, ModelOptions& options) {
  flags.add("Adapters",
            {
                Flag("--adapter", &options.adapter,
                     "LoRA adapter: a PEFT folder or a GGUF file, and its scale (default: 1)")
                    .called("PATH[:SCALE]"),
            });
}

Result<std::vector<TokenId>> parse_token_list(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    TokenId id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (rest != end && *rest != ',')) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("--tokens is '{}', expected token ids separated by commas, such as 1,2,3",
                      text));
    }
    ids.push_back(id);
    if (rest == end) return ids;
    at = rest + 1;
  }
}

}  // namespace kvik
