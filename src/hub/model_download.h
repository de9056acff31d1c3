#pragma once

#include <string>

#include "base/result.h"
#include "hub/download/file_download.h"
#include "hub/header_probe.h"
#include "hub/model_fit.h"
#include "hub/stores/model_store.h"

namespace kvik {

// Downloads a model and returns it as stored: what has been downloaded before is not downloaded
// again. If `check_fit` is not empty, a model that does not fit the memory of this machine, or that
// Kvik cannot read, is not downloaded; the error names a smaller quantization of the same
// repository that fits. Statuses of the progress: "pulling manifest", lines about files that are
// left out and about the fit, "downloading FILE", "verifying FILE", "success". Errors: kNotFound,
// kInvalidArgument, kIo, kUnsupported without libcurl, kExhausted if it does not fit.
Result<StoredModel> download_model(ModelStore& store, const std::string& name,
                                   const FitCheck& check_fit, const OnProgress& on_progress);

// Calls `use` with the headers of a model that is not stored (read_remote_headers()). Errors: those
// of download_model() and of `use`.
Result<void> with_remote_headers(const ModelStore& store, const std::string& name,
                                 const UseHeaders& use, const KeepGoing& keep_going);

}  // namespace kvik
