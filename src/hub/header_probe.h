#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "hub/remote_model.h"

namespace kvik {

// Reads the headers of a model, given the path of its files.
using UseHeaders = std::function<Result<void>(const std::string& path)>;

// Requests the headers of the files of a model and presents them to `use` in a temporary folder, as
// sparse files of the whole size. Calls it again with longer headers if it fails with kCorrupt.
// Errors: kIo if the server answers no ranges or a connection fails; those of `use`.
Result<void> read_remote_headers(HttpSession& session, const RemoteModel& model,
                                 const UseHeaders& use, const KeepGoing& keep_going);

}  // namespace kvik
