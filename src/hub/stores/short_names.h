#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/result.h"

namespace kvik {

// Short names of stored models, which `kvik cp` gives: a file of lines "SHORT NAME". Any thread and
// any process.
class ShortNames {
 public:
  // folder: that of the file and of its lock.
  explicit ShortNames(std::string folder) : folder_(std::move(folder)) {}

  // Returns the stored names by short name; empty if there is no file or it cannot be read.
  std::map<std::string, std::string> read() const;
  // Adds or replaces a short name. Errors: kInvalidArgument for a name that is not
  // [NAMESPACE/]NAME[:TAG], kIo.
  Result<void> add(const std::string& short_name, const std::string& name) const;
  // Removes a short name. Errors: kIo.
  Result<void> remove(const std::string& short_name) const;
  // Removes all short names of a stored model. Errors: kIo.
  Result<void> remove_target(const std::string& name) const;

 private:
  template <class Change>
  Result<void> change(Change change_names) const;

  std::string folder_;
};

// Returns a name without ":latest", which is the same name.
std::string without_latest(std::string name);

}  // namespace kvik
