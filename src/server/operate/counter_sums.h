#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace kvik {

// The counters of a router's models over all their loads. The counters of each process begin at 0.
// A process that is unloaded reports its counters at its end; of one that crashes, those of the
// last page count. Any thread.
class CounterSums {
 public:
  enum class Reader { kOperator, kTenant };
  using Sample = std::pair<std::string, double>;  // name with labels, value

  // Returns the page of the metrics of a model's process, with what earlier processes have counted.
  // n_loads: ModelStatus::n_loads of that process. Tenants get sums of what is on the page.
  std::string with_earlier(const std::string& model, uint64_t n_loads, std::string_view page,
                           Reader reader);

  // Returns the counters of a model whose process does not answer, or that has none.
  std::string page_of(const std::string& model) const;

  // Adds the counters of a process that has ended. counters: the page of its counters; empty: it
  // has not reported them.
  void end(const std::string& model, uint64_t n_loads, std::string_view counters);

  // Returns the counters and histograms of a page.
  static std::string counters_in(std::string_view page);

 private:
  struct Family {
    std::string name, comments;
    std::vector<Sample> samples;
  };
  using Counters = std::vector<Family>;
  struct Model {
    Counters ended;        // of the processes that have ended
    uint64_t n_ended = 0;  // n_loads of the newest of them
    Counters seen;         // of the running process
    uint64_t seen_of = 0;  // n_loads of that process
  };

  static Counters parse(std::string_view page);
  static void add(Counters& sums, const Counters& more);
  static const Family* find(const Counters& counters, std::string_view name);
  static std::string text_of(const Counters& counters);
  static std::string known_text(const Model& model);

  mutable Mutex mutex_;
  std::map<std::string, Model> models_ GUARDED_BY(mutex_);
};

}  // namespace kvik
