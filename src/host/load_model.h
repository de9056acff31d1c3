#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/host_memory.h"
#include "base/printable.h"
#include "base/result.h"
#include "engine/engine.h"
#include "format/model_source.h"
#include "host/footprint.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace kvik {

class Adapter;

// What every command that computes is told.
struct ModelOptions {
  std::string model;
  uint32_t n_threads = 0;  // 0: one per processor
  KvType kv_type = KvType::kInt8;
  uint64_t n_ctx = 0;  // 0: as trained
  HugePages huge_pages = HugePages::kOn;
  std::string isa = {};      // instruction set; empty: the best here
  std::string adapter = {};  // "PATH[:SCALE]"; empty: none
  // The number of the GPU that computes, as CUDA counts them; none: the processor.
  std::optional<uint32_t> gpu = std::nullopt;
  bool overcommits = false;  // an engine may need more memory than the machine has
  // Called while weights are loaded, with the bytes done and all bytes; empty: not called.
  std::function<void(uint64_t, uint64_t)> on_progress = {};
};

// "cpu", "cuda" or "cuda:N" → ModelOptions::gpu. Errors: kInvalidArgument.
Result<std::optional<uint32_t>> gpu_from_name(std::string_view name);

// Opens a .gguf file, a Hugging Face folder, `demo` (the embedded model) or
// `synthetic:PRESET[:TYPE]`.
Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec);

// With the instruction set, the threads and the pages asked for, or the GPU. Errors: those of
// make_cpu_backend() and cuda::open_device().
Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options);

// Whether the plan fits what a device has left, where the backend's memory is one's own. Errors:
// kExhausted.
Result<void> check_device_memory(const MemoryPlan& plan, Backend& backend);

// A model ready to compute, with its vocabulary; the source is closed.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<Model> draft;            // null: none (load_draft())
  std::shared_ptr<const Adapter> adapter;  // null: none
  Printable id;                            // model_id()
  std::string spec;                        // what open_model() opens it by
  KvType kv_type = KvType::kInt8;
  uint64_t n_ctx = 0;    // tokens of context: as asked for, else as trained
  MemoryPlan plan = {};  // where it was loaded for an engine

  KvFootprint kv() const { return {model->config(), *backend, kv_type}; }
};

// Opens and packs, with a progress bar on a terminal. Warns where --ctx passes the trained context.
Result<LoadedModel> load_model(const ModelOptions& options);
// The same of what is open and made already.
Result<LoadedModel> load_model(const ModelOptions& options, ModelSource& source,
                               std::unique_ptr<Backend> backend);
// Loads for an engine with this type of pages and this context, and logs the memory
// that it will need: a warning if less is free now. Errors: kExhausted if the machine has less in
// all and `overcommits` is not set, or if the system does not let this process map it.
Result<LoadedModel> load_model(const ModelOptions& options, EngineOptions engine);

// What clients call a model: a file's name without folder and ending, a folder's name, else the
// spec as it stands.
Printable model_id(const std::string& spec);

}  // namespace kvik
