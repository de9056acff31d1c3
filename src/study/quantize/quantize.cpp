#include "study/quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/new_file.h"
#include "base/log.h"
#include "base/process/processors.h"
#include "base/quantity.h"
#include "format/adapter/adapter_source.h"
#include "format/adapter/merged_tensors.h"
#include "format/folded_factors.h"
#include "format/source_config.h"
#include "host/load_model.h"
#include "host/progress_bar.h"
#include "study/quantize/calibrate.h"
#include "study/quantize/quantize_report.h"
#include "study/quantize/quantizer.h"
#include "text/hf/gguf_vocabulary.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr MixTarget kPlainFloats = {ElementType::kF32, 0};
// version of ggml's block formats that is in use since 2023
constexpr uint64_t kQuantizationVersion = 2;

// Checks the options before anything is read.
Result<void> check(const QuantizeOptions& o) {
  const auto wrong = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (o.type.empty() && o.calibrate.empty()) {
    return wrong(fmt::format("nothing to write: expected --type {}, or --calibrate with a text",
                             mix_target_names()));
  }
  if (!o.importance.empty() && !o.calibrate.empty()) {
    return wrong("--importance and --calibrate cannot be used together");
  }
  if (o.type.empty() && (o.pure || !o.importance.empty())) {
    return wrong("--pure and --importance require --type");
  }
  std::error_code ignored;
  if (fs::equivalent(o.model.model, o.out, ignored)) {
    return wrong(
        fmt::format("'{}' is the model that is read, expected another file to write", o.out));
  }
  if (fs::exists(o.out, ignored) && !o.force) {
    return wrong(fmt::format("'{}' exists, expected a new file, or --force to replace it", o.out));
  }
  return {};
}

// Converts the vocabulary of a folder to GGUF's keys if possible, because other programs do not
// read tokenizer.json.
Result<void> translate_vocabulary(Metadata& metadata) {
  if (!metadata.contains("tokenizer.huggingface.json")) return {};
  const auto vocabulary = gguf_vocabulary(metadata);
  if (!vocabulary) {
    if (vocabulary.error().code != ErrorCode::kUnsupported) {
      return std::unexpected(vocabulary.error());
    }
    log::warn("{}: the file contains the tokenizer.json itself, which some programs cannot read",
              vocabulary.error().message);
    return {};
  }
  std::vector<std::string> of_folder;
  for (const auto& [key, value] : metadata.values()) {
    if (key.starts_with("tokenizer.huggingface.")) of_folder.push_back(key);
  }
  for (const std::string& key : of_folder) metadata.erase(key);
  for (const auto& [key, value] : vocabulary->values()) metadata.replace(key, value);
  return {};
}

// Returns the metadata of the source with the changed keys.
Result<Metadata> metadata_for(const QuantizeOptions& options, const MixTarget& target,
                              const ModelSource& source, const Importance* importance) {
  Metadata metadata = source.metadata();
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) metadata.erase(key);
  TRY(translate_vocabulary(metadata));
  metadata.replace("general.file_type", uint64_t{target.file_type});
  metadata.replace("general.quantization_version", kQuantizationVersion);
  if (importance) {  // the key names are those of llama.cpp
    const std::string& file = options.importance.empty() ? options.calibrate : options.importance;
    metadata.replace("quantize.imatrix.file", fs::path(file).filename().string());
    metadata.replace("quantize.imatrix.dataset", importance->text);
    metadata.replace("quantize.imatrix.entries_count", uint64_t{importance->inputs().size()});
    metadata.replace("quantize.imatrix.chunks_count", importance->n_chunks);
  }
  return metadata;
}

// Warns if the source is quantized already, and names the type of most tensors.
void warn_of_quantized_source(const ModelSource& source) {
  std::map<ElementType, size_t> counts;
  for (const TensorInfo& tensor : source.tensors()) {
    if (traits(tensor.type).block_elements > 1) ++counts[tensor.type];
  }
  if (counts.empty()) return;
  const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
  log::warn("'{}' is already quantized ({}); requantizing does not recover the lost precision",
            source.label(), name_of(most->first));
}

Result<std::optional<Importance>> find_importance(const QuantizeOptions& options) {
  if (!options.calibrate.empty()) {
    return calibrate(
        {.model = options.model, .text = options.calibrate, .n_windows = options.n_windows});
  }
  if (options.importance.empty()) return std::nullopt;
  return Importance::read(options.importance);
}

// Adds the adapter, if there is one, to the weights that are written.
Result<void> add_adapter(const std::string& adapter, ModelSource& source) {
  if (adapter.empty()) return {};
  TRY_ASSIGN(const AdapterSpec spec, parse_adapter_spec(adapter));
  TRY_ASSIGN(const ModelConfig config, config_of(source));
  TRY_ASSIGN(auto opened, open_adapter(spec.path, config, spec.scale));
  merge_adapter(source, std::move(opened));
  return {};
}

Result<std::string> write_model(const QuantizeOptions& options, const Importance* importance,
                                const QuantizeProgress& progress) {
  TRY_ASSIGN(auto source, open_model(options.model.model));
  TRY(add_adapter(options.model.adapter, *source));
  TRY(fold_factors(*source));
  const MixTarget target = mix_target_from_name(options.type).value_or(kPlainFloats);
  const WeightMix mix(target, options.pure ? WeightMix::Kind::kPure : WeightMix::Kind::kMixed,
                      source->tensors());
  ThreadPool threads(options.model.n_threads ? options.model.n_threads : usable_cores());
  TRY(threads.started());
  Quantizer quantizer(*source, mix, importance, threads);
  TRY_ASSIGN(auto plan, quantizer.plan());
  TRY_ASSIGN(const Metadata metadata, metadata_for(options, target, *source, importance));
  warn_of_quantized_source(*source);

  std::vector<TensorInfo> tensors;
  uint64_t all_bytes = 0;
  for (const QuantizedTensor& tensor : plan) {
    tensors.push_back(tensor.info);
    if (tensor.scales) tensors.push_back(*tensor.scales);
  }
  for (const TensorInfo& tensor : source->tensors()) all_bytes += tensor.n_bytes;
  progress.on_begin();
  TRY_ASSIGN(auto output, GgufOutput::create(options.out, metadata, std::move(tensors)));
  ProgressBar bar("quantizing");
  TRY(quantizer.write(plan, output, [&](uint64_t done) {
    bar.show(done, all_bytes, format_bytes(done));
    return progress.goes_on();
  }));
  TRY(output.commit());
  const QuantizeReport report{.in = options.model.model,
                              .out = options.out,
                              .type = options.type,
                              .n_bytes = output.n_bytes(),
                              .tensors = plan};
  return options.as_json ? report_json(report) : report_text(report);
}

}  // namespace

Result<std::string> quantize(const QuantizeOptions& options, const QuantizeProgress& progress) {
  TRY(check(options));
  TRY(NewFile::create(options.out, 0644));  // only checks that the file can be created
  TRY_ASSIGN(const auto importance, find_importance(options));
  if (!options.type.empty())
    return write_model(options, importance ? &*importance : nullptr, progress);
  TRY(importance->write(options.out));
  return fmt::format("importance of {} matrices from {} windows of {} tokens: {}\n",
                     importance->inputs().size(), importance->n_chunks, importance->chunk_tokens,
                     options.out);
}

}  // namespace kvik
