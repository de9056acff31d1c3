#pragma once

#include <string>

#include "base/file/file_descriptor.h"

namespace kvik {

// A folder in memory in which unloaded models leave their KV pages. It is removed at the end; the
// constructor also removes the folders of processes of this user that have ended without doing so.
class WarmFolder {
 public:
  WarmFolder();
  ~WarmFolder();
  WarmFolder(const WarmFolder&) = delete;
  WarmFolder& operator=(const WarmFolder&) = delete;

  // Empty if the system has no such folder, which is logged.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor lock_;
};

}  // namespace kvik
