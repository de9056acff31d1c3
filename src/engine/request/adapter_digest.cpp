#include "engine/request/adapter_digest.h"

#include "model/adapter.h"

namespace kvik {

std::string digest_of(const Adapter* adapter) { return adapter ? adapter->digest() : ""; }

}  // namespace kvik
