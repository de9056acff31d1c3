#include "main/model_flags.h"

#include <fmt/format.h>

#include <charconv>

#include "main/environment.h"

namespace kvik {
namespace {

Words as_kv_type(KvType& type) {
  return {.type = "TYPE", .read = [&type](const std::string& name) {
            const auto found = kv_type_from_name(name);
            type = found.value_or(type);
            return found ? "" : fmt::format("'{}' is no KV type; expected {}", name, kKvTypeNames);
          }};
}

}  // namespace

void add_model_flags(Flags& flags, ModelOptions& options) {
  options.isa = environment("KVIK_ISA");
  flags.add({
      Flag("MODEL", &options.model,
           "a .gguf file, a Hugging Face folder, 'demo' (the embedded model) or "
           "synthetic:PRESET[:TYPE]")
          .required(),
      Flag("--threads", &options.n_threads, "threads that compute (default: one per processor)")
          .between(1u, 1024u),
      {"--kv-type", as_kv_type(options.kv_type),
       fmt::format("what K and V are stored as: {} (default: {})", kKvTypeNames,
                   name_of(options.kv_type))},
      Flag("--huge-pages",
           Words{.type = "on|off",
                 .read =
                     [&options](const std::string& text) {
                       using enum cpu::HugePages;
                       options.huge_pages = text == "on" ? kOn : kOff;
                       return std::string();
                     }},
           "ask the system for pages of 2 MiB (default: on)")
          .one_of({"on", "off"}),
      {"--device",
       Words{.type = "cpu|cuda[:N]",
             .read =
                 [&options](const std::string& name) {
                   const auto gpu = gpu_from_name(name);
                   options.gpu = gpu.value_or(std::nullopt);
                   return gpu ? std::string() : gpu.error().message;
                 }},
       "what computes: the processor, or the GPU of that number (default: cpu; GPUs are "
       "experimental: not yet measured on one)"},
      {"--ctx", not_zero(as_count(options.n_ctx)), "tokens of context (default: as trained)"},
  });
}

void add_adapter_flag(Flags& flags, ModelOptions& options) {
  flags.add(Flag("--adapter", &options.adapter,
                 "LoRA adapter: a folder of PEFT or a GGUF file; behind a colon, how much of it "
                 "(default: 1)")
                .called("PATH[:SCALE]"));
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
          fmt::format("--tokens is '{}', expected ids with commas between, such as 1,2,3", text));
    }
    ids.push_back(id);
    if (rest == end) return ids;
    at = rest + 1;
  }
}

}  // namespace kvik
