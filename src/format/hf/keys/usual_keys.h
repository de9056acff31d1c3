#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"
#include "catalogue/family.h"

namespace kvik::hf {

// Gives the keys that only this type of model has the form that others have. Errors: those of the
// functions for each type.
Result<boost::json::value> with_usual_keys(boost::json::value config, const FolderType& type);

}  // namespace kvik::hf
