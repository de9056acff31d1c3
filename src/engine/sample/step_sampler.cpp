#include "engine/sample/step_sampler.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "engine/sample/log_softmax.h"

namespace kvik {

StepSampler::StepSampler(Backend& backend, uint32_t n_vocab) : backend_(backend) {
  samplers_.reserve(backend.n_threads());
  for (uint32_t i = 0; i < backend.n_threads(); ++i) samplers_.emplace_back(n_vocab);
}

void StepSampler::make(std::span<TokenPick> picks) {
  const auto work = [&](size_t item, uint32_t thread) {
    try {
      make(samplers_[thread], picks[item]);
    } catch (const std::bad_alloc&) {  // an exception must not leave a worker
    }
  };
  // Picks of the argmax alone are not worth waking the threads.
  if (std::ranges::any_of(picks, [](const TokenPick& pick) { return !pick.logits.empty(); }))
    return backend_.run_on_host(picks.size(), std::ref(work));
  for (size_t i = 0; i < picks.size(); ++i) work(i, 0);
}

void StepSampler::make(Sampler& sampler, TokenPick& pick) {
  Sequence& sequence = *pick.sequence;
  const Request& request = sequence.request;
  const uint32_t n_generated = sequence.n_generated();
  const bool too_early = n_generated < request.min_tokens;
  std::optional<TokenId> token = pick.argmax;
  float mirostat_mu = sequence.mirostat_mu;  // a pick that runs out of memory is made again
  if (!pick.logits.empty()) {
    token = sampler.sample(
        {.logits = pick.logits,
         .params = request.sampling,
         .history = sequence.history(),
         .masked = too_early ? std::span(request.stop_tokens) : std::span<const TokenId>(),
         .position = sequence.n_tokens(),
         .next_tokens = sequence.next_tokens ? &*sequence.next_tokens : nullptr,
         .mirostat_mu = &mirostat_mu});
  }
  if (token) {
    if (n_generated < request.script.size()) token = request.script[n_generated];
    TokenEvent event{.id = *token, .chosen = {}, .top = {}};
    if (request.n_logprobs) {
      const LogSoftmax logprobs(pick.logits);
      event.chosen = {*token, logprobs.of(*token)};
      event.top = logprobs.top(*request.n_logprobs);
    }
    pick.event = std::move(event);
  }
  sequence.mirostat_mu = mirostat_mu;
  pick.is_made = true;
}

}  // namespace kvik
