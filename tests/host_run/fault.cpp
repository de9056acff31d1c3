#include "host_run/fault.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace kvik::host_run {
namespace {

void abort_with(const std::string& sentence) {
  std::fprintf(stderr, "host run: %s\n", sentence.c_str());
  std::abort();
}

std::atomic<FaultHandler> fault_handler = abort_with;

}  // namespace

void set_fault_handler(FaultHandler handler) { fault_handler = handler ? handler : abort_with; }

void report_fault(const std::string& sentence) { fault_handler.load()(sentence); }

}  // namespace kvik::host_run
