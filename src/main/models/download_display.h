#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "host/progress_bar.h"
#include "service/model_library.h"

namespace kvik {

// Shows the progress of downloads on stderr: each status once as a line, and the bytes of a file as
// a bar with rate and time left if stderr is a terminal.
class DownloadDisplay {
 public:
  void show(const PullProgress& progress);
  // Removes the bar.
  void close() { bar_.reset(); }

 private:
  std::string rate_text(const PullProgress& progress);

  struct Sample {
    TimePoint at;
    uint64_t n_done;
  };
  std::set<std::string> shown_;  // statuses that were printed
  std::string status_;           // of the bar
  std::unique_ptr<ProgressBar> bar_;
  std::deque<Sample> samples_;  // of the last seconds
};

}  // namespace kvik
