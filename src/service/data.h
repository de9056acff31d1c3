#pragma once

#include "base/json/json.h"

namespace kvik {

using Data = Json;

}  // namespace kvik
