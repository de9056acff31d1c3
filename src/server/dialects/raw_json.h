#pragma once

#include <string_view>

namespace kvik {

// Returns the text of a value in a request's body: `json` is the text of an object, `path` the
// names of members separated by dots ("text.format.schema"). Of members with one name the last one
// counts. Empty if there is none. The text must be valid JSON.
std::string_view raw_value(std::string_view json, std::string_view path);

}  // namespace kvik
