#pragma once

#include <string>
#include <vector>

namespace kvik {

// Translates conventions of other programs: `kvik help serve`, `kvik version`, and -ngl, which
// would otherwise be parsed as three one-letter flags. Removes llama.cpp's flags that name a model
// of a hub (-hf, -hff, -mu) and returns that model as an argument MODEL; empty: none.
std::string translate_conventions(std::vector<std::string>& arguments);

}  // namespace kvik
