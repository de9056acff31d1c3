#pragma once

#include <string_view>

#include "base/json/json.h"

namespace kvik {

// Returns whether a JSON text fits the schema of a tool's parameters. Checks types, enum, const,
// required and declared properties, items, choices, references and bounds; other keywords are not
// looked at. An object whose properties are declared takes no others unless additionalProperties
// allows them. A schema that is null allows any object.
bool fits_schema(const Json* schema, std::string_view json);

}  // namespace kvik
