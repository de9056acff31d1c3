#include <gtest/gtest.h>

#include "host_run/fault.h"

namespace kvik {
namespace {

// Undefined behavior of GPU code fails the running test.
const bool kIsSet = [] {
  host_run::set_fault_handler([](const std::string& sentence) { ADD_FAILURE() << sentence; });
  return true;
}();

}  // namespace
}  // namespace kvik
