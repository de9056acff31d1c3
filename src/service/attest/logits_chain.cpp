#include "service/attest/logits_chain.h"

namespace kvik {

LogitsChain::LogitsChain(const Hash128& request, uint32_t choice) {
  const uint64_t words[] = {request.low, request.high, choice};
  last_ = xxh3_128(std::as_bytes(std::span(words)));
}

LogitsChain::Link LogitsChain::add(TokenId id, std::span<const float> logits) {
  const Hash128 bits = xxh3_128(std::as_bytes(logits));
  const uint64_t words[] = {last_.low, last_.high, id, bits.low, bits.high};
  last_ = xxh3_128(std::as_bytes(std::span(words)));
  return last_.low;
}

LogitsChain::Link LogitsChain::end(bool ended_itself) const {
  const uint64_t words[] = {last_.low, last_.high, ended_itself};
  return xxh3_128(std::as_bytes(std::span(words))).low;
}

}  // namespace kvik
