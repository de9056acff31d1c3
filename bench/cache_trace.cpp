// Compares the prefix cache hit rate of Kvik's pages with an LRU over whole conversations, as
// llama.cpp keeps them in host memory, when the cache holds only a few of many conversations. Uses
// the real pool, index and tables over pages without contents, and no model. Prints a Markdown
// table.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "prompt_caches.h"

namespace kvik {
namespace {

constexpr uint32_t kConversations = 64;
constexpr uint32_t kTurns = 8;
constexpr uint32_t kHeld = 10;  // number of conversations that fit the budget at their final length
constexpr uint32_t kSystemTokens = 400;
constexpr size_t kPageBytes = 64;

// Caches whole conversations, each with a copy of all of its tokens. A lookup finds the longest
// common prefix; the least recently used conversation is evicted first. No memory is lost to partly
// filled pages.
class WholeConversations final : public Cache {
 public:
  explicit WholeConversations(uint64_t n_tokens) : n_tokens_(n_tokens) {}

  uint32_t run(const Tokens& prompt, const Tokens& answer) override {
    auto best = held_.end();
    uint32_t n_found = 0;
    for (auto it = held_.begin(); it != held_.end(); ++it) {
      const uint32_t n = common_prefix(std::span(*it), std::span(prompt).first(prompt.size() - 1));
      if (n <= n_found) continue;
      best = it;
      n_found = n;
    }
    // A continued conversation replaces its previous version. A conversation that shares only a
    // prefix with another one is stored beside it.
    if (best != held_.end() && n_found == best->size()) held_.erase(best);
    Tokens all = prompt;
    all.insert(all.end(), answer.begin(), answer.end() - 1);
    held_.push_back(std::move(all));
    uint64_t n_held = 0;
    for (const Tokens& tokens : held_) n_held += tokens.size();
    while (n_held > n_tokens_) {
      n_held -= held_.front().size();
      held_.erase(held_.begin());
    }
    return n_found;
  }

 private:
  uint64_t n_tokens_;
  std::vector<Tokens> held_;  // least recently used first
};

// Chooses the conversation of the next turn; kConversations stands for a one-off question.
using Order = std::function<uint32_t(uint32_t turn, std::mt19937&)>;

struct Trace {
  std::string name;
  Order next;
};

struct Result {
  uint64_t n_prompt = 0;
  uint64_t n_found = 0;
};

Result replay(const Trace& trace, Cache& cache) {
  std::mt19937 random(1);
  TokenId next_token = 1000;
  const auto some = [&](uint32_t least, uint32_t most) {
    Tokens tokens(least + random() % (most - least + 1));
    for (TokenId& token : tokens) token = next_token++;
    return tokens;
  };
  const Tokens system = some(kSystemTokens, kSystemTokens);
  std::vector<Tokens> histories(kConversations, system);
  std::vector<uint32_t> n_turns(kConversations, 0);
  Result result;
  uint32_t n_left = kConversations * kTurns;
  for (uint32_t i = 0; n_left > 0; ++i) {
    const uint32_t conversation = trace.next(i, random);
    Tokens one_off = system;
    if (conversation < kConversations) {
      if (n_turns[conversation] == kTurns) continue;
      ++n_turns[conversation];
      --n_left;
    }
    Tokens& prompt = conversation < kConversations ? histories[conversation] : one_off;
    const Tokens question = some(20, 180);
    const Tokens answer = some(50, 350);
    prompt.insert(prompt.end(), question.begin(), question.end());
    result.n_prompt += prompt.size();
    result.n_found += cache.run(prompt, answer);
    prompt.insert(prompt.end(), answer.begin(), answer.end());
  }
  return result;
}

std::vector<Trace> traces() {
  return {
      {"in turn", [](uint32_t i, std::mt19937&) { return i % kConversations; }},
      {"at random",
       [](uint32_t, std::mt19937& random) { return uint32_t(random() % kConversations); }},
      {"8 at a time",
       [](uint32_t i, std::mt19937& random) {
         return i / (kTurns * 10) * 8 % kConversations + uint32_t(random() % 8);
       }},
      {"at random, half of all requests come once",
       [](uint32_t, std::mt19937& random) {
         return uint32_t(random() % 2 == 0 ? kConversations : random() % kConversations);
       }},
  };
}

void print_all() {
  // 400 + 8 · (100 + 200) tokens on average.
  const uint64_t n_tokens = kHeld * (kSystemTokens + kTurns * 300);
  fmt::print("{} conversations of {} turns; room for {} tokens, {} conversations\n\n",
             kConversations, kTurns, n_tokens, kHeld);
  fmt::print(
      "| order of conversations | prompt tokens | hit by pages | hit by an LRU over whole "
      "conversations |\n"
      "|---|---|---|---|\n");
  for (const Trace& trace : traces()) {
    Pages pages(n_tokens / kPageTokens, KvLayout(kPageBytes));
    WholeConversations whole(n_tokens);
    const Result by_pages = replay(trace, pages);
    const Result by_conversation = replay(trace, whole);
    const auto share = [](const Result& r) { return 100.0 * r.n_found / r.n_prompt; };
    fmt::print("| {} | {} | {:.1f}% | {:.1f}% |\n", trace.name, by_pages.n_prompt, share(by_pages),
               share(by_conversation));
  }
}

// Prints the unused part of each sequence's last page, relative to the whole conversation.
void print_waste() {
  std::mt19937 random(2);
  fmt::print("\n| tokens | unused part of the pages |\n|---|---|\n");
  for (const uint32_t mean : {100u, 300u, 1000u, 2800u, 8000u}) {
    std::lognormal_distribution<double> length(std::log(mean) - 0.32, 0.8);  // with this mean
    uint64_t n_tokens = 0, n_pages = 0;
    for (int i = 0; i < 100000; ++i) {
      const auto n = static_cast<uint64_t>(std::max(1.0, length(random)));
      n_tokens += n;
      n_pages += pages_for(n);
    }
    const double held = static_cast<double>(n_pages * kPageTokens);
    fmt::print("| {} on average | {:.1f}% |\n", mean, 100.0 * (1 - n_tokens / held));
  }
}

}  // namespace
}  // namespace kvik

int main() {
  kvik::print_all();
  kvik::print_waste();
}
