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
#include "host/memory_choice.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace kvik {

class Adapter;

// Options of every command that computes.
struct ModelOptions {
  std::string model;
  std::string name = {};   // for clients; empty: model_id(model)
  uint32_t n_threads = 0;  // 0: one per physical core
  KvType kv_type = KvType::kInt8;
  uint64_t n_ctx = 0;  // 0: as trained
  // True if n_ctx is not given: engines that serve choose the largest context that fits.
  bool chooses_ctx = true;
  HugePages huge_pages = HugePages::kOn;
  bool leaves_tables_in_file = false;  // ModelSource::leave_tables_in_file()
  std::string isa = {};                // instruction set; empty: the best one
  std::string adapter = {};            // "PATH[:SCALE]"; empty: none
  // CUDA device number; std::nullopt: the CPU.
  std::optional<uint32_t> gpu = std::nullopt;
  bool may_encode = false;     // allows encoders, which generate no text
  bool overcommits = false;    // allows a plan that needs more memory than the machine has
  bool shows_progress = true;  // a progress bar, if stderr is a terminal
  // Called while weights are loaded, with the bytes done and all bytes; empty: not called.
  std::function<void(uint64_t, uint64_t)> on_progress = {};
};

// Parses "cpu", "cuda" or "cuda:N" for ModelOptions::gpu. Errors: kInvalidArgument.
Result<std::optional<uint32_t>> gpu_from_name(std::string_view name);

// Opens a .gguf file, a Hugging Face folder, `demo` (the embedded model) or
// `synthetic:PRESET[:TYPE]`.
Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec);
// Opens options.model as the other options want it. Errors: also kInvalidArgument if they exclude
// each other.
Result<std::unique_ptr<ModelSource>> open_model(const ModelOptions& options);

// Creates the CPU backend with these options, or the CUDA backend. Errors: those of
// make_cpu_backend() and cuda::open_device().
Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options);

// Checks whether the plan fits into the free memory of a device with memory of its own. Errors:
// kExhausted.
Result<void> check_device_memory(const MemoryPlan& plan, Backend& backend);

// A loaded model with its tokenizer; the source is closed unless tables stay in it.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<Model> draft;            // null: none (load_draft())
  std::string draft_spec = {};             // draft model that remains to be loaded; empty: none
  std::shared_ptr<const Adapter> adapter;  // null: none
  Printable id;                            // model_id()
  std::string spec;                        // argument of open_model()
  KvType kv_type = KvType::kInt8;
  uint64_t n_ctx = 0;    // context in tokens: as requested, else as trained
  MemoryPlan plan = {};  // set if it was loaded for an engine
  uint64_t n_parameters = 0;
  ElementType weight_type = ElementType::kF32;  // type of most parameters in the file

  KvFootprint kv() const { return {model->config(), *backend, kv_type}; }
};

// The memory of an engine besides its model.
struct MemoryBeside {
  std::optional<uint64_t> kv_bytes = {};  // absent: chosen by choose_memory()
  uint64_t adapter_bytes = 0;             // budget of adapters
  std::string draft = {};                 // DraftRequest::draft
};

// A choice, and one sentence that states it.
struct StatedChoice {
  MemoryChoice choice;
  std::string sentence;
};

// Returns the context and the KV budget for an engine with these options: what the user gave, else
// what choose_memory() chooses.
StatedChoice choose_memory(const ModelOptions& options, const EngineOptions& engine,
                           const MemoryBeside& beside, const Footprint& footprint,
                           Backend& backend);

// Loads and packs a model. Warns if n_ctx exceeds the trained context.
Result<LoadedModel> load_model(const ModelOptions& options);
// Like the above, with an opened source and a backend.
Result<LoadedModel> load_model(const ModelOptions& options, std::shared_ptr<ModelSource> source,
                               std::unique_ptr<Backend> backend);
// Loads a model for an engine with the KV type of `options`. Sets the KV budget of `engine` and the
// context of the loaded model as choose_memory() does, and logs them if they were chosen. Logs the
// memory that it will need, and a warning if less is available now. Errors: kExhausted if the
// machine has less in total and `overcommits` is not set, if this process may not map it, or if a
// device with memory of its own has less free.
Result<LoadedModel> load_model(ModelOptions options, EngineOptions& engine, MemoryBeside beside);

// Returns the name of a model for clients: the name of a file without folder and extension, the
// name of a folder, otherwise the spec itself.
Printable model_id(const std::string& spec);
// Returns options.name, or the name of options.model if that is empty.
Printable model_id(const ModelOptions& options);

}  // namespace kvik
