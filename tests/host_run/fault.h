#pragma once

#include <string>

// Who hears what a GPU would have left undefined. A test that runs kernels sets one that fails it;
// where none is set, the sentence goes to stderr and the program is aborted.
namespace kvik::host_run {

using FaultHandler = void (*)(const std::string& sentence);
void set_fault_handler(FaultHandler handler);  // null: none is set

void report_fault(const std::string& sentence);

}  // namespace kvik::host_run
