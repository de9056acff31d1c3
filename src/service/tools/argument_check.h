#pragma once

#include <string_view>

#include "base/json/json.h"

namespace kvik {

// Returns whether a JSON text matches the schema of a tool's parameters. Checks types, enum, const,
// required and declared properties, items, allOf, anyOf, oneOf, references and bounds; other
// keywords are ignored. An object with declared properties may have no others unless
// additionalProperties allows them. A null schema allows any object. Returns false if the check
// takes too many steps.
bool fits_schema(const Json* schema, std::string_view json);

}  // namespace kvik
