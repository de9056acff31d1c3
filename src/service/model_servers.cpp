#include "service/model_servers.h"

namespace kvik {

std::string_view name_of(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kLoaded:
      return "loaded";
    case ModelState::kUnloading:
      return "unloading";
    case ModelState::kFailed:
      break;
  }
  return "failed";
}

}  // namespace kvik
