#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/http/http_session.h"
#include "hub/hub_options.h"
#include "service/model_library.h"

namespace kvik {

// Receives the progress of a download; returns false to stop it.
using OnProgress = std::function<bool(const PullProgress&)>;

// A file to download.
struct FileSource {
  std::string name;  // for messages
  std::string url;
  std::string bearer = {};                         // token for the origin of `url`; empty: none
  std::optional<uint64_t> n_bytes = std::nullopt;  // as the hub states
  std::string sha256 = {};                         // in hex; empty: unknown
  std::string git_id = {};                         // git_blob_id(); empty: unknown
};

// The largest size of a file that is believed.
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 44;

// Suffix of the name of an unfinished download. Not ".incomplete", which huggingface_hub takes for
// the beginning of the file.
inline constexpr std::string_view kPartSuffix = ".kvik-part";

// The paths of a download.
struct FilePlace {
  std::string path;
  std::string part_path;  // of an unfinished download, in the same file system
  std::string lock_path;
};

// Downloads a file, unless it is there, and gives it its name when all its bytes are verified and
// on the device. Continues an earlier download. If another process downloads the same file, waits
// until it has ended. Errors: kNotFound (401, 404), kIo.
Result<void> download_file(HttpSession& session, const FileSource& source, const FilePlace& place,
                           const HubOptions& options, const OnProgress& on_progress);

// Returns the error of an answer with a status other than 200 and 206. what: the file or model, for
// the message.
Error status_error(const HttpReply& reply, const std::string& what);

}  // namespace kvik
