// Draws tokens many times from one row of logits, for tools/measure/sampler_peers.py. Commands on
// stdin, one a line:
//   logits X…            the row
//   tokens N ID…         the tokens before, of which the first N are the prompt
//   set FIELD VALUE      a field of sampling_fields()
//   order INDEX…         the order of the samplers, as numbers of SamplerKind
//   breaker ID…          tokens that end a repetition of DRY
//   draw N               prints how often each token is drawn at N positions
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/sample/sampler.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

struct Setup {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  size_t n_prompt = 0;
  SamplingParams params;
  DryBreakers breakers;
};

template <class T>
std::vector<T> rest_of(std::istream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

bool set_field(Setup& setup, const std::string& name, const std::string& value) {
  for (const SamplingField& field : sampling_fields()) {
    if (field.name == name) return read_field(field, value, setup.params);
  }
  return false;
}

void draw(Setup& setup, uint64_t n) {
  setup.params.dry.breakers = std::make_shared<const DryBreakers>(setup.breakers);
  TokenCounts counts;
  for (size_t i = 0; i < setup.tokens.size(); ++i) {
    i < setup.n_prompt ? counts.add_prompt(setup.tokens[i]) : counts.add_answer(setup.tokens[i]);
  }
  Sampler sampler(static_cast<uint32_t>(setup.logits.size()));
  std::vector<uint64_t> drawn(setup.logits.size());
  for (uint64_t position = 0; position < n; ++position) {
    const auto token = sampler.sample(
        {.logits = setup.logits,
         .params = setup.params,
         .history = {.counts = counts, .tokens = setup.tokens, .n_prompt = setup.n_prompt},
         .masked = {},
         .position = position});
    if (token) ++drawn[*token];
  }
  for (const uint64_t count : drawn) std::cout << count << ' ';
  std::cout << std::endl;
}

// Returns false for a line that is no command.
bool obey(Setup& setup, const std::string& text) {
  std::istringstream line(text);
  std::string word;
  line >> word;
  if (word == "logits") {
    setup.logits = rest_of<float>(line);
  } else if (word == "tokens") {
    line >> setup.n_prompt;
    setup.tokens = rest_of<TokenId>(line);
  } else if (word == "set") {
    std::string name, value;
    line >> name >> value;
    return set_field(setup, name, value);
  } else if (word == "order") {
    setup.params.order.emplace();
    for (const uint32_t kind : rest_of<uint32_t>(line))
      setup.params.order->push_back(SamplerKind(kind));
  } else if (word == "breaker") {
    std::vector<TokenId> ids = rest_of<TokenId>(line);
    if (ids.empty()) return false;
    setup.breakers[ids.front()].emplace_back(ids.begin() + 1, ids.end());
  } else if (word == "draw") {
    uint64_t n = 0;
    line >> n;
    draw(setup, n);
  } else {
    return false;
  }
  return true;
}

}  // namespace
}  // namespace kvik

int main() {
  kvik::Setup setup;
  for (std::string line; std::getline(std::cin, line);) {
    if (kvik::obey(setup, line)) continue;
    std::cerr << "cannot read: " << line.substr(0, 80) << '\n';
    return 2;
  }
}
