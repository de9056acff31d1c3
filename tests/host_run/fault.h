#pragma once

#include <string>

// Handler of actions that are undefined on a GPU. A test that runs kernels sets a handler that
// fails it; without a handler the sentence is written to stderr and the program is aborted.
namespace kvik::host_run {

using FaultHandler = void (*)(const std::string& sentence);
void set_fault_handler(FaultHandler handler);  // null: none is set

void report_fault(const std::string& sentence);

}  // namespace kvik::host_run
