#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/download/file_download.h"
#include "hub/model_name.h"
#include "hub/stores/model_store.h"

namespace kvik {

// A file of a model on a hub, and its place on this machine.
struct RemoteFile {
  std::string name;  // without folder
  FileSource source;
  FilePlace place;

  // Returns whether it has been downloaded.
  bool is_stored() const;
};

// A model that can be downloaded.
struct RemoteModel {
  std::string name;           // StoredModel::name, or a name that ModelStore::find() accepts
  std::string pull_argument;  // argument of `kvik pull`
  std::vector<RemoteFile> files;
  std::vector<std::string> notes;     // lines about files that are left out
  std::function<Result<void>()> add;  // makes the downloaded files a stored model

  uint64_t n_bytes() const;
};

// A model and the smaller quantizations of the same repository, the largest first.
struct RemoteChoice {
  RemoteModel model;
  std::vector<RemoteModel> smaller;
};

// Requests the list of files of a model. Errors: kNotFound, kInvalidArgument, kIo, kUnsupported.
Result<RemoteChoice> find_remote_model(HttpSession& session, const ModelName& name,
                                       const ModelStore& store, const KeepGoing& keep_going);

}  // namespace kvik
