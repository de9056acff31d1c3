#include <gtest/gtest.h>

#include "host_run/fault.h"

namespace kvik {
namespace {

// What a GPU leaves undefined fails the test that runs.
const bool kIsSet = [] {
  host_run::set_fault_handler([](const std::string& sentence) { ADD_FAILURE() << sentence; });
  return true;
}();

}  // namespace
}  // namespace kvik
