#include "main/environment.h"

#include <cstdlib>

namespace kvik {

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

std::string take_environment(const std::string& name) {
  std::string value = environment(name);
  ::unsetenv(name.c_str());
  return value;
}

}  // namespace kvik
