#include "service/structured_output/grammar_rules.h"

namespace kvik {

size_t n_bytes(const GrammarNode& node) {
  size_t bytes = sizeof(node) + node.text.size();
  for (const GrammarNode& part : node.parts) bytes += n_bytes(part);
  return bytes;
}

size_t n_bytes(const GrammarRules& rules) {
  size_t bytes = 0;
  for (const GrammarNode& rule : rules.rules) bytes += n_bytes(rule);
  return bytes;
}

}  // namespace kvik
