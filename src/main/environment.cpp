#include "main/environment.h"

#include <cstdlib>

namespace kvik {

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

}  // namespace kvik
