#include "host/load_model.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <span>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/runtime/open_device.h"
#include "base/log.h"
#include "base/quantity.h"
#include "format/gguf/gguf.h"
#include "format/hf/folder.h"
#include "format/synthetic/synthetic.h"
#include "host/available_memory.h"
#include "host/load_adapter.h"
#include "host/progress_bar.h"

// models/demo.gguf, put into the binary by cmake/embed.cmake.
extern "C" const std::byte kvik_demo_model_begin[];
extern "C" const std::byte kvik_demo_model_end[];

namespace kvik {
namespace {

void log_memory(const MemoryPlan& plan, Backend& backend) {
  log::info("memory: {} = weights {} + KV cache {} + buffers {}", format_bytes(plan.total_bytes()),
            format_bytes(plan.weights_bytes), format_bytes(plan.kv_bytes),
            format_bytes(plan.buffers_bytes()));
  if (backend.memory().free_bytes()) return;  // not the machine's
  const auto available = available_memory_bytes();
  if (!available || plan.total_bytes() <= *available) return;
  log::warn(
      "that is more than the {} that this machine has left: it will swap, or end this process, "
      "unless --kv-memory is less",
      format_bytes(*available));
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec) {
  if (spec == "demo") {
    return open_gguf_bytes("demo", std::span(kvik_demo_model_begin, kvik_demo_model_end));
  }
  if (spec.starts_with("synthetic:")) return make_synthetic(spec);
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) return hf::open_folder(spec);
  return open_gguf(spec);
}

Result<std::optional<uint32_t>> gpu_from_name(std::string_view name) {
  if (name == "cpu") return std::nullopt;
  if (name == "cuda") return 0;
  uint32_t number = 0;
  if (name.starts_with("cuda:")) {
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 5, end, number);
    if (error == std::errc() && rest == end) return number;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no device; expected cpu, cuda or cuda:N", name));
}

Result<void> check_device_memory(const MemoryPlan& plan, Backend& backend) {
  const auto left = backend.memory().free_bytes();
  if (!left || plan.backend_bytes() <= *left) return {};
  return fail(ErrorCode::kExhausted,
              fmt::format("the model, its pages and buffers take {} of the memory of {}, of which "
                          "{} are free: less --kv-memory or --ctx, or --device cpu",
                          format_bytes(plan.backend_bytes()), backend.name(), format_bytes(*left)));
}

Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options) {
  if (options.gpu) {
    TRY_ASSIGN(auto device, cuda::open_device(*options.gpu));
    log::warn("{} computes: that is experimental, for it has not been measured on a GPU",
              device->info().name);
    const uint32_t n_threads = options.n_threads > 0 ? options.n_threads : usable_processors();
    return cuda::make_backend(std::move(device), n_threads);
  }
  return make_cpu_backend(
      {.n_threads = options.n_threads, .isa = options.isa, .huge_pages = options.huge_pages});
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
  if (!options.adapter.empty()) {
    TRY_ASSIGN(loaded.adapter, load_adapter(options.adapter, *loaded.model, *loaded.backend));
  }
  const uint32_t n_ctx_train = loaded.model->config().n_ctx_train;
  loaded.id = model_id(options.model);
  loaded.kv_type = options.kv_type;
  loaded.n_ctx = options.n_ctx ? options.n_ctx : n_ctx_train;
  if (options.n_ctx > n_ctx_train) {
    log::warn("a context of {} tokens passes the {} that the model was trained on", options.n_ctx,
              n_ctx_train);
  }
  return loaded;
}

Result<LoadedModel> load_model(const ModelOptions& options, EngineOptions engine) {
  engine.kv_type = options.kv_type;
  engine.n_ctx_max = static_cast<uint32_t>(options.n_ctx);
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(const auto source, open_model(options.model));
  // What is wrong with a file is said in full by loading it.
  if (const auto footprint = Footprint::of(*source, *backend)) {
    const MemoryPlan plan = footprint->plan(engine);
    log_memory(plan, *backend);
    TRY(check_device_memory(plan, *backend));
  }
  return load_model(options, *source, std::move(backend));
}

Printable model_id(const std::string& spec) {
  if (spec.ends_with(".gguf")) return std::filesystem::path(spec).stem().string();
  std::error_code failed;
  if (!std::filesystem::is_directory(spec, failed)) return spec;
  const auto folder = std::filesystem::canonical(spec, failed);
  return failed ? spec : folder.filename().string();
}

}  // namespace kvik
