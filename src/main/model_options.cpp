#include "main/model_options.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <span>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "base/quantity.h"
#include "format/gguf/gguf.h"
#include "format/hf/folder.h"
#include "format/synthetic/synthetic.h"
#include "kv/kv_cache.h"
#include "main/environment.h"
#include "main/progress_bar.h"

// models/demo.gguf, put into the binary by cmake/embed.cmake.
extern "C" const std::byte kvik_demo_model_begin[];
extern "C" const std::byte kvik_demo_model_end[];

namespace kvik {
namespace {

template <class Value>
using Parse = Result<Value> (*)(std::string_view);

template <class Value, class Target>
CLI::Option* add_quantity(CLI::App& command, const std::string& name, Target& value,
                          const std::string& help, Parse<Value> parse) {
  return command
      .add_option_function<std::string>(
          name, [&value, parse](const std::string& text) { value = parse(text).value_or(Value()); },
          help)
      ->check([parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed ? std::string() : parsed.error().message;
      });
}

}  // namespace

CLI::Option* add_count(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_count)->type_name("N");
}

CLI::Option* add_count(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_count)->type_name("N");
}

CLI::Option* add_counts(CLI::App& command, const std::string& name, std::vector<uint64_t>& values,
                        const std::string& help) {
  return add_quantity(command, name, values, help, parse_counts)->type_name("N,…");
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_bytes)->type_name("SIZE");
}

CLI::Option* add_duration(CLI::App& command, const std::string& name, Duration& value,
                          const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [&value](const std::string& text) {
            value = parse_duration(text).value_or(Duration::zero());
          },
          help)
      ->check([](const std::string& text) {
        const auto parsed = parse_duration(text);
        return parsed ? std::string() : parsed.error().message;
      })
      ->type_name("TIME");
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("MODEL", model,
                  "a .gguf file, a Hugging Face folder, 'demo' (the embedded model) or "
                  "synthetic:PRESET[:TYPE]")
      ->required();
  command.add_option("--threads", n_threads, "threads that compute (default: one per processor)")
      ->check(CLI::Range(1u, 1024u));
  command
      .add_option_function<std::string>(
          "--kv-type", [this](const std::string& name) { kv_type = *kv_type_from_name(name); },
          fmt::format("what K and V are stored as: {} (default: {})", kKvTypeNames,
                      name_of(kv_type)))
      ->check([](const std::string& name) {
        return kv_type_from_name(name)
                   ? std::string()
                   : fmt::format("'{}' is no KV type; expected {}", name, kKvTypeNames);
      })
      ->type_name("TYPE");
  command
      .add_option_function<std::string>(
          "--huge-pages",
          [this](const std::string& text) {
            huge_pages = text == "on" ? cpu::HugePages::kOn : cpu::HugePages::kOff;
          },
          "ask the system for pages of 2 MiB (default: on)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  add_count(command, "--ctx", n_ctx, "tokens of context (default: as trained)");
}

Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec) {
  if (spec == "demo") {
    return open_gguf_bytes("demo", std::span(kvik_demo_model_begin, kvik_demo_model_end));
  }
  if (spec.starts_with("synthetic:")) return make_synthetic(spec);
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) return hf::open_folder(spec);
  return open_gguf(spec);
}

Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options) {
  return make_cpu_backend({.n_threads = options.n_threads,
                           .isa = environment("KVIK_ISA"),
                           .huge_pages = options.huge_pages});
}

Result<LoadedModel> load_model(const ModelOptions& options) {
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(const auto source, open_model(options.model));
  return load_model(options, *source, std::move(backend));
}

Result<LoadedModel> load_model(const ModelOptions& options, ModelSource& source,
                               std::unique_ptr<Backend> backend) {
  LoadedModel loaded;
  loaded.backend = std::move(backend);
  auto tokenizer = Tokenizer::from_metadata(source.metadata());
  if (!tokenizer) {
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", options.model, tokenizer.error().message));
  }
  loaded.tokenizer = std::move(*tokenizer);
  ProgressBar bar("loading");
  const auto show_progress = [&](uint64_t done, uint64_t all) {
    bar.show(done, all, format_bytes(done));
  };
  TRY_ASSIGN(loaded.model, Model::load(source, *loaded.backend, show_progress,
                                       static_cast<uint32_t>(options.n_ctx)));
  const uint32_t n_ctx_train = loaded.model->config().n_ctx_train;
  if (options.n_ctx > n_ctx_train) {
    log::warn("a context of {} tokens passes the {} that the model was trained on", options.n_ctx,
              n_ctx_train);
  }
  return loaded;
}

uint64_t kv_bytes_for(const LoadedModel& loaded, KvType type, uint64_t n_tokens,
                      uint64_t n_sequences) {
  const uint64_t page_bytes = loaded.backend->page_bytes(loaded.model->kv_geometry(type));
  const uint64_t n_groups = group_layers(loaded.model->config()).n_groups();
  return pages_for(n_tokens) * n_groups * n_sequences * page_bytes;
}

std::string model_id(const std::string& spec) {
  if (spec.ends_with(".gguf")) return std::filesystem::path(spec).stem().string();
  std::error_code failed;
  if (!std::filesystem::is_directory(spec, failed)) return spec;
  const auto folder = std::filesystem::canonical(spec, failed);
  return failed ? spec : folder.filename().string();
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
