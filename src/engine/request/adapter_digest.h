#pragma once

#include <string>

namespace kvik {

class Adapter;

// Returns Adapter::digest(), or an empty text for null.
std::string digest_of(const Adapter* adapter);

}  // namespace kvik
