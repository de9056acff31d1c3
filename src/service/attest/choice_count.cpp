#include "service/attest/choice_count.h"

#include <span>

namespace kvik {

Hash128 with_choices(const Hash128& request, uint32_t n_choices) {
  Sha256 sha;
  sha.add(std::as_bytes(std::span(&request, 1)));
  sha.add_number(n_choices);
  return xxh3_128(sha.finish());
}

}  // namespace kvik
