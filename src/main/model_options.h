#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_memory.h"
#include "backend/ops.h"
#include "base/result.h"
#include "engine/engine.h"
#include "format/model_source.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace kvik {

// The flags of every command that computes.
struct ModelOptions {
  std::string model;
  uint32_t n_threads = 0;  // 0: one per processor
  KvType kv_type = KvType::kInt8;
  uint64_t n_ctx = 0;  // 0: as trained
  cpu::HugePages huge_pages = cpu::HugePages::kOn;

  void add_to(CLI::App& command);
};

// --name N where N may end in k (1024) or M, or in KiB, MiB, GiB. A bad value is a usage error.
CLI::Option* add_count(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help);
CLI::Option* add_count(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help);
// The same, several with commas between.
CLI::Option* add_counts(CLI::App& command, const std::string& name, std::vector<uint64_t>& values,
                        const std::string& help);
CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help);
// --name T where T is a time with its unit.
CLI::Option* add_duration(CLI::App& command, const std::string& name, Duration& value,
                          const std::string& help);

// Opens a .gguf file, a Hugging Face folder, `demo` (the embedded model) or
// `synthetic:PRESET[:TYPE]`.
Result<std::unique_ptr<ModelSource>> open_model(const std::string& spec);

// The instruction set that KVIK_ISA names, or the best; and the threads and pages asked for.
Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options);

// A model ready to compute, with its vocabulary; the source is closed.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
};

// Opens and packs, with a progress bar on a terminal. Warns where --ctx passes the trained context.
Result<LoadedModel> load_model(const ModelOptions& options);
// The same of what is open and made already.
Result<LoadedModel> load_model(const ModelOptions& options, ModelSource& source,
                               std::unique_ptr<Backend> backend);

// Bytes of pages for n_tokens of each of n_sequences.
uint64_t kv_bytes_for(const LoadedModel& loaded, KvType type, uint64_t n_tokens,
                      uint64_t n_sequences);

// What clients call a model: a file's name without folder and ending, a folder's name, else the
// spec as it stands.
std::string model_id(const std::string& spec);

// "1,2,3" → ids. A bad list is kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
