#include "hub/model_download.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/printable.h"
#include "base/quantity.h"
#include "hub/header_probe.h"
#include "hub/remote_model.h"

namespace kvik {
namespace {

// Number of smaller quantizations whose headers are requested to find one that fits.
constexpr int kMaxProposals = 4;

Error is_offline_without(const std::string& name) {
  return {ErrorCode::kNotFound,
          fmt::format("'{}' is not stored here, and HF_HUB_OFFLINE forbids downloads",
                      printable(name))};
}

class ModelDownload {
 public:
  ModelDownload(ModelStore& store, HttpSession& session, const FitCheck& check_fit,
                const OnProgress& on_progress)
      : store_(store), session_(session), check_fit_(check_fit), on_progress_(on_progress) {}

  Result<StoredModel> run(const ModelName& name) {
    TRY(say("pulling manifest"));
    TRY_ASSIGN(const RemoteChoice choice, find_remote_model(session_, name, store_, keep_going_));
    const RemoteModel& model = choice.model;
    for (const std::string& note : model.notes) TRY(say(note));
    const bool is_stored = std::ranges::all_of(model.files, &RemoteFile::is_stored);
    if (!is_stored && check_fit_) TRY(check(choice));
    for (const RemoteFile& file : model.files) {
      TRY(download_file(session_, file.source, file.place, store_.options(), on_progress_));
    }
    TRY(model.add());
    store_.mark_changed();
    TRY(say("success"));
    if (auto stored = store_.find(model.name)) return *stored;
    return fail(
        ErrorCode::kIo,
        fmt::format(
            "'{}' was downloaded and is not complete: its files have been removed meanwhile",
            printable(model.name)));
  }

 private:
  Result<void> say(std::string status) {
    if (on_progress_({.status = std::move(status), .digest = "", .n_done = 0, .n_total = 0}))
      return {};
    return fail(ErrorCode::kIo, "the download was stopped");
  }

  Result<ModelFit> fit_of(const RemoteModel& model) {
    ModelFit fit;
    const auto use = [&](const std::string& path) -> Result<void> {
      TRY_ASSIGN(fit, check_fit_(path));
      return {};
    };
    TRY(read_remote_headers(session_, model, use, keep_going_));
    return fit;
  }

  Result<void> check(const RemoteChoice& choice) {
    const RemoteModel& model = choice.model;
    const auto fit = fit_of(model);
    if (!fit && fit.error().code == ErrorCode::kIo) {
      return say(fmt::format("whether {} fits into memory is not known before it is downloaded",
                             printable(model.name)));
    }
    if (!fit)
      return fail(fit.error().code, fmt::format("{} is not downloaded: {}", printable(model.name),
                                                fit.error().message));
    const std::string needs =
        fmt::format("{} needs {} of memory with a context of {} tokens", printable(model.name),
                    format_bytes(fit->needed_bytes), fit->n_ctx);
    if (fit->fits())
      return say(
          fmt::format("{}, and this machine has {}", needs, format_bytes(fit->memory_bytes)));
    std::string message =
        fmt::format("{}, and this machine has {}", needs, format_bytes(fit->memory_bytes));
    if (const RemoteModel* smaller = find_fitting(choice.smaller, fit->memory_bytes)) {
      message += fmt::format("; {} fits: kvik pull {}", printable(smaller->name),
                             printable(smaller->pull_argument));
    } else {
      message += "; no quantization of the same repository fits";
    }
    return fail(ErrorCode::kExhausted, fmt::format("{} (kvik pull --force {} downloads it anyway)",
                                                   message, printable(model.pull_argument)));
  }

  // Returns the largest model that fits; null if there is none.
  const RemoteModel* find_fitting(const std::vector<RemoteModel>& models, uint64_t memory_bytes) {
    int n_left = kMaxProposals;
    for (const RemoteModel& model : models) {
      if (model.n_bytes() >= memory_bytes) continue;
      if (n_left-- == 0) return nullptr;
      const auto fit = fit_of(model);
      if (fit && fit->fits()) return &model;
    }
    return nullptr;
  }

  ModelStore& store_;
  HttpSession& session_;
  const FitCheck& check_fit_;
  const OnProgress& on_progress_;
  const KeepGoing keep_going_ = [this] {
    return on_progress_({.status = "pulling manifest", .digest = "", .n_done = 0, .n_total = 0});
  };
};

}  // namespace

Result<StoredModel> download_model(ModelStore& store, const std::string& name,
                                   const FitCheck& check_fit, const OnProgress& on_progress) {
  TRY_ASSIGN(const ModelName parsed, parse_model_name(name, store.options()));
  if (store.options().is_offline) {
    if (auto stored = store.find(name)) return *stored;
    return std::unexpected(is_offline_without(name));
  }
  TRY_ASSIGN(const auto session, HttpSession::open(store.options()));
  return ModelDownload(store, *session, check_fit, on_progress).run(parsed);
}

Result<void> with_remote_headers(const ModelStore& store, const std::string& name,
                                 const UseHeaders& use, const KeepGoing& keep_going) {
  TRY_ASSIGN(const ModelName parsed, parse_model_name(name, store.options()));
  if (store.options().is_offline) return std::unexpected(is_offline_without(name));
  TRY_ASSIGN(const auto session, HttpSession::open(store.options()));
  TRY_ASSIGN(const RemoteChoice choice, find_remote_model(*session, parsed, store, keep_going));
  return read_remote_headers(*session, choice.model, use, keep_going);
}

}  // namespace kvik
