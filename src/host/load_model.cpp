#include "host/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <span>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/runtime/open_device.h"
#include "base/log.h"
#include "base/memory_region.h"
#include "base/process/processors.h"
#include "base/quantity.h"
#include "engine/speculate/draft_model.h"
#include "format/gguf/gguf.h"
#include "format/hf/folder.h"
#include "format/mtp_copies.h"
#include "format/source_config.h"
#include "format/synthetic/synthetic.h"
#include "host/available_memory.h"
#include "host/draft_head.h"
#include "host/load_adapter.h"
#include "host/progress_bar.h"
#include "hub/resolve_model.h"

// models/demo.gguf, embedded by cmake/embed.cmake.
extern "C" const std::byte kvik_demo_model_begin[];
extern "C" const std::byte kvik_demo_model_end[];

namespace kvik {
namespace {

// Checks that the machine has the planned memory. Errors: kExhausted.
Result<void> check_machine_memory(const ModelOptions& options, const MemoryPlan& plan,
                                  Backend& backend) {
  const auto all = machine_memory_bytes();
  if (options.overcommits || !all || plan.total_bytes() <= *all) return {};
  if (backend.memory().free_bytes()) return {};  // the device has memory of its own
  return fail(ErrorCode::kExhausted,
              fmt::format("{} of memory are needed (weights {}, KV cache {}, buffers {}), and this "
                          "machine has {}: give less --kv-memory or a smaller model, or "
                          "--overcommit to start anyway",
                          format_bytes(plan.total_bytes()), format_bytes(plan.weights_bytes),
                          format_bytes(plan.kv_bytes), format_bytes(plan.buffers_bytes()),
                          format_bytes(*all)));
}

// Checks that this process may map the planned backend memory. A limit (ulimit -v) or a kernel
// without overcommit may forbid it. Errors: kExhausted.
Result<void> check_address_space(const MemoryPlan& plan, Backend& backend) {
  if (backend.memory().free_bytes()) return {};  // the device has memory of its own
  if (MemoryRegion::take(plan.backend_bytes())) return {};
  return fail(ErrorCode::kExhausted,
              fmt::format("the system refuses the {} of memory that this process needs "
                          "(weights {}, KV cache {}): give less --kv-memory or a smaller model, or "
                          "raise the process's limit (ulimit -v)",
                          format_bytes(plan.backend_bytes()), format_bytes(plan.weights_bytes),
                          format_bytes(plan.kv_bytes)));
}

// Returns the number of threads requested, or one per core if that many would only be slower.
uint32_t threads_of(const ModelOptions& options) {
  constexpr uint32_t kMaxPerProcessor = 4;
  const uint32_t n_processors = usable_processors();
  if (options.n_threads <= kMaxPerProcessor * n_processors) return options.n_threads;
  const uint32_t n_cores = usable_cores();
  log::warn("--threads {} is far more than this machine's {}: {} compute", options.n_threads,
            counted(n_processors, "processor"), counted(n_cores, "thread"));
  return n_cores;
}

// Checks that the argument names a file or folder that can be opened as a model. Errors:
// kInvalidArgument for a part of a folder, kNotFound for a missing path.
Result<void> check_spec(const std::string& spec) {
  const std::filesystem::path path(spec);
  std::error_code ignored;
  if (path.extension() == ".safetensors") {
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' holds tensors alone: pass its folder, '{}', which has config.json "
                    "and tokenizer.json too",
                    spec, folder.string()));
  }
  if (std::filesystem::exists(path, ignored) || path.extension() == ".gguf") return {};
  return std::unexpected(unknown_model(spec));
}

void log_memory(const MemoryPlan& plan, Backend& backend) {
  log::info("memory: {} = weights {} + KV cache {} + buffers {}", format_bytes(plan.total_bytes()),
            format_bytes(plan.weights_bytes), format_bytes(plan.kv_bytes),
            format_bytes(plan.buffers_bytes()));
  if (backend.memory().free_bytes()) return;  // the device has memory of its own
  const auto available = available_memory_bytes();
  if (!available || plan.total_bytes() <= *available) return;
  log::warn(
      "only {} of memory are available: the system may swap or kill this process; reduce "
      "--kv-memory",
      format_bytes(*available));
}

// Adds the memory of a draft model. If it cannot be planned, load_draft() reports the error.
void add_draft(const std::string& spec, const EngineOptions& engine, Backend& backend,
               MemoryRequest& requested) {
  const auto source = open_model(spec);
  if (!source) return;
  (*source)->leave_out_mtp_head();
  const auto draft = Footprint::of(**source, backend);
  if (!draft) return;
  requested.draft_page_bytes = draft->kv(engine.kv_type).page_bytes();
  requested.draft_bytes =
      draft->weights().n_bytes +
      DraftModel::buffer_bytes(draft->config(), engine.kv_type, engine.max_running, backend);
}

Result<std::unique_ptr<ModelSource>> open_files(const std::string& spec) {
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) return hf::open_folder(spec);
  TRY(check_spec(spec));
  return open_gguf(spec);
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec) {
  if (spec == "demo") {
    return open_gguf_bytes("demo", std::span(kvik_demo_model_begin, kvik_demo_model_end));
  }
  if (spec.starts_with("synthetic:")) return make_synthetic(spec);
  TRY_ASSIGN(auto source, open_files(spec));
  TRY(leave_out_mtp_copies(*source));
  return source;
}

Result<std::unique_ptr<ModelSource>> open_model(const ModelOptions& options) {
  if (options.leaves_tables_in_file && options.gpu) {
    return fail(ErrorCode::kInvalidArgument,
                "--per-layer-embeddings is file, expected memory with --device cuda");
  }
  TRY_ASSIGN(auto source, open_model(options.model));
  if (options.leaves_tables_in_file) source->leave_tables_in_file();
  return source;
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
              fmt::format("unknown device '{}', expected cpu, cuda or cuda:N", name));
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
    log::warn("computing on {}: GPU support is experimental and has not been measured",
              device->info().name);
    const uint32_t n_threads = threads_of(options);
    return cuda::make_backend(std::move(device), n_threads > 0 ? n_threads : usable_cores());
  }
  return make_cpu_backend(
      {.n_threads = threads_of(options), .isa = options.isa, .huge_pages = options.huge_pages});
}

Result<LoadedModel> load_model(const ModelOptions& options) {
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(auto source, open_model(options));
  return load_model(options, std::move(source), std::move(backend));
}

namespace {

// Refuses an encoder where it cannot be used, before its weights are read. Errors of the config are
// those of Model::load().
Result<void> check_encoder(const ModelOptions& options, const ModelSource& source) {
  const auto config = config_of(source);
  if (!config || !config->encoder) return {};
  if (!options.may_encode) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: this model is an encoder ({}) and generates no text: serve it with "
                    "kvik serve, which answers /v1/embeddings and /v1/rerank",
                    options.model, config->architecture));
  }
  if (options.n_ctx > config->n_ctx_train) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--ctx {} is more than the longest text of this encoder ({}), {} tokens",
                    options.n_ctx, config->architecture, config->n_ctx_train));
  }
  if (options.adapter.empty()) return {};
  return fail(ErrorCode::kUnsupported,
              "adapters are for models that generate text; this one is an encoder");
}

// Sets n_parameters and weight_type.
void count_parameters(std::span<const TensorInfo> tensors, LoadedModel& loaded) {
  std::map<ElementType, uint64_t> of_type;
  for (const TensorInfo& tensor : tensors) {
    loaded.n_parameters += tensor.n_elements();
    of_type[tensor.type] += tensor.n_elements();
  }
  const auto most = std::ranges::max_element(
      of_type, {}, [](const auto& type_and_count) { return type_and_count.second; });
  if (most != of_type.end()) loaded.weight_type = most->first;
}

}  // namespace

Result<LoadedModel> load_model(const ModelOptions& options, std::shared_ptr<ModelSource> source,
                               std::unique_ptr<Backend> backend) {
  TRY(check_encoder(options, *source));
  LoadedModel loaded;
  loaded.backend = std::move(backend);
  auto tokenizer = Tokenizer::from_metadata(source->metadata());
  if (!tokenizer) {
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", options.model, tokenizer.error().message));
  }
  loaded.tokenizer = std::move(*tokenizer);
  count_parameters(source->tensors(), loaded);
  ProgressBar bar("loading");
  const auto show_progress = [&](uint64_t done, uint64_t all) {
    if (options.shows_progress) bar.show(done, all, format_bytes(done));
    if (options.on_progress) options.on_progress(done, all);
  };
  LoadOptions how{.n_ctx_max = static_cast<uint32_t>(options.n_ctx), .kv_type = options.kv_type};
  if (source->are_tables_in_file()) how.file = source;
  TRY_ASSIGN(loaded.model, Model::load(*source, *loaded.backend, show_progress, how));
  if (!options.adapter.empty()) {
    TRY_ASSIGN(loaded.adapter,
               load_adapter(options.adapter, {*loaded.model, *loaded.backend, options.model}));
  }
  const ModelConfig& config = loaded.model->config();
  const uint32_t n_ctx_train = config.n_ctx_train;
  loaded.id = model_id(options);
  loaded.spec = options.model;
  loaded.kv_type = options.kv_type;
  loaded.n_ctx = options.n_ctx ? options.n_ctx : n_ctx_train;
  if (options.n_ctx > n_ctx_train && (config.encoder || config.has_positions)) {
    loaded.n_ctx = n_ctx_train;
    log::warn("--ctx is {}, but this {} has {} positions: texts may have {} tokens", options.n_ctx,
              config.encoder ? "encoder" : "model", n_ctx_train, n_ctx_train);
  } else if (options.n_ctx > n_ctx_train) {
    log::warn("a context of {} tokens exceeds the trained context of {}", options.n_ctx,
              n_ctx_train);
  }
  return loaded;
}

StatedChoice choose_memory(const ModelOptions& options, const EngineOptions& engine,
                           const MemoryBeside& beside, const Footprint& footprint,
                           Backend& backend) {
  MemoryRequest requested;
  requested.kv_bytes = beside.kv_bytes;
  requested.adapter_bytes = beside.adapter_bytes;
  const uint64_t n_ctx_train = footprint.config().n_ctx_train;
  if (!options.chooses_ctx) requested.n_ctx = options.n_ctx ? options.n_ctx : n_ctx_train;
  if (!beside.draft.empty()) add_draft(beside.draft, engine, backend, requested);
  const MemoryState memory = memory_state(backend);
  const MemoryChoice choice = choose_memory(footprint, engine, requested, memory);
  return {choice, describe(choice, requested, memory, n_ctx_train)};
}

Result<LoadedModel> load_model(ModelOptions options, EngineOptions& engine, MemoryBeside beside) {
  engine.kv_type = options.kv_type;
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(auto source, open_model(options));
  TRY_ASSIGN(beside.draft, add_draft_head({.draft = beside.draft,
                                           .model = options.model,
                                           .speculates = engine.speculation.mode !=
                                                         SpeculationOptions::Mode::kOff},
                                          *backend, source));
  // If there is no footprint, load_model() reports the error in full.
  MemoryPlan plan;
  if (const auto footprint = Footprint::of(*source, *backend)) {
    if (footprint->config().encoder) {
      engine.kv_budget_bytes = 0;
      engine.n_ctx_max = static_cast<uint32_t>(options.n_ctx);
    } else {
      const auto [choice, sentence] = choose_memory(options, engine, beside, *footprint, *backend);
      if (!beside.kv_bytes) log::info("{}", sentence);
      options.n_ctx = choice.n_ctx;
      engine.kv_budget_bytes = choice.kv_bytes;
      engine.n_ctx_max = static_cast<uint32_t>(choice.n_ctx);
    }
    plan = footprint->plan(engine);
    TRY(check_machine_memory(options, plan, *backend));
    log_memory(plan, *backend);
    TRY(check_address_space(plan, *backend));
    TRY(check_device_memory(plan, *backend));
  }
  TRY_ASSIGN(LoadedModel loaded, load_model(options, std::move(source), std::move(backend)));
  loaded.plan = std::move(plan);
  loaded.draft_spec = std::move(beside.draft);
  return loaded;
}

Printable model_id(const std::string& spec) {
  if (spec.ends_with(".gguf")) return std::filesystem::path(spec).stem().string();
  std::error_code failed;
  if (!std::filesystem::is_directory(spec, failed)) return spec;
  const auto folder = std::filesystem::canonical(spec, failed);
  return failed ? spec : folder.filename().string();
}

Printable model_id(const ModelOptions& options) {
  return options.name.empty() ? model_id(options.model) : Printable(options.name);
}

}  // namespace kvik
