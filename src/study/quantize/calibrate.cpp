#include "study/quantize/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "base/file/atomic_file.h"
#include "host/progress_bar.h"
#include "study/quantize/input_recorder.h"
#include "study/window_logits.h"

namespace kvik {
namespace {

constexpr uint64_t kDefaultWindow = 512;
constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

Result<Importance> calibrate(const Calibration& calibration) {
  ModelOptions options = calibration.model;
  if (options.n_ctx == 0) options.n_ctx = kDefaultWindow;
  options.kv_type = KvType::kF32;  // exact pages, because only the text is computed
  const auto n_ctx = static_cast<uint32_t>(std::min<uint64_t>(options.n_ctx, UINT32_MAX / 2));
  TRY_ASSIGN(const std::string text, read_whole(calibration.text, kMaxTextBytes));
  TRY_ASSIGN(auto backend, make_backend(options));
  TRY_ASSIGN(const std::shared_ptr<ModelSource> source, open_model(options));

  Importance importance;
  importance.text = std::filesystem::path(calibration.text).filename().string();
  importance.chunk_tokens = n_ctx;
  auto recorder = std::make_unique<InputRecorder>(std::move(backend), *source, importance);
  TRY_ASSIGN(LoadedModel loaded, load_model(options, source, std::move(recorder)));
  auto windows =
      windows_of(*loaded.tokenizer, text, n_ctx, {.add_bos = true, .parse_special = true});
  if (!windows) {
    return fail(windows.error().code,
                fmt::format("'{}': {}", calibration.text, windows.error().message));
  }
  if (calibration.n_windows && *calibration.n_windows < windows->size()) {
    windows->resize(*calibration.n_windows);
  }
  TRY_ASSIGN(const auto reader, WindowLogits::create(loaded, n_ctx));
  ProgressBar bar("calibrating");
  for (const auto& window : *windows) {
    TRY(reader->read(window, [](uint32_t, std::span<const float>) {}));
    ++importance.n_chunks;
    bar.show(importance.n_chunks, windows->size(), fmt::format("window {}", importance.n_chunks));
  }
  return importance;
}

}  // namespace kvik
