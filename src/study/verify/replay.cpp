#include "study/verify/replay.h"

#include <fmt/format.h>

#include <utility>

#include "base/quantity.h"
#include "service/attest/choice_count.h"
#include "study/single_sequence.h"

namespace kvik {
namespace {

// Records the tokens of a replay and the chain of their logits.
class RecordingSink final : public EventSink {
 public:
  RecordingSink(const AttestedRequest& request, uint32_t choice, uint32_t n_choices)
      : chain_(with_choices(hash_of(request), n_choices), choice) {}

  void on_trace(const TokenTrace& trace) override {
    replayed_.links.push_back(chain_.add(trace.id, trace.logits));
  }
  Verdict on_token(const TokenEvent& event) override {
    replayed_.ids.push_back(event.id);
    return Verdict::kContinue;
  }
  void on_finish(FinishReason reason, const Usage&) override { finish_ = reason; }

  const AttestedChoice& replayed() const { return replayed_; }
  LogitsChain::Link end(bool ended_itself) const { return chain_.end(ended_itself); }
  std::optional<FinishReason> finish() const { return finish_; }

 private:
  LogitsChain chain_;
  AttestedChoice replayed_;
  std::optional<FinishReason> finish_;
};

// Returns the first difference. The replay may have one token more than the answer.
std::optional<std::string> difference(const AttestedChoice& answer, const RecordingSink& replay) {
  const AttestedChoice& replayed = replay.replayed();
  for (size_t i = 0; i < answer.ids.size(); ++i) {
    if (i == replayed.ids.size()) return fmt::format("the replay ends after {} tokens", i);
    if (answer.ids[i] != replayed.ids[i]) {
      return fmt::format("token {} is {}, the replay has {}", i, answer.ids[i], replayed.ids[i]);
    }
    if (answer.links[i] == replayed.links[i]) continue;
    const char* reason = i == 0 ? "the logits, or the recorded request, differ at token {}"
                                : "the logits differ at token {}";
    return fmt::format(fmt::runtime(reason), i);
  }
  const size_t n = answer.ids.size();
  if (replayed.ids.size() > n) {
    return fmt::format("the answer ends after {}, the replay goes on", counted(n, "token"));
  }
  if (answer.end != replay.end(answer.ended_itself)) {
    return fmt::format("{} are not the whole answer", counted(n, "token"));
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Replay>> Replay::create(LoadedModel& loaded, uint32_t n_ctx) {
  std::unique_ptr<Replay> replay(new Replay);
  replay->adapter_ = loaded.adapter;
  TRY_ASSIGN(replay->engine_, single_sequence_engine(loaded, n_ctx, replay->clock_));
  return replay;
}

Result<std::optional<std::string>> Replay::verify(const AttestedRequest& attested, uint32_t choice,
                                                  uint32_t n_choices,
                                                  const AttestedChoice& answer) {
  Request request;
  request.prompt = attested.prompt;
  request.sampling = attested.sampling;
  request.sampling.choice_index = choice;
  request.min_tokens = attested.min_tokens;
  request.stop_tokens = attested.stop_tokens;
  request.adapter = adapter_;
  request.trace = Request::Trace::kOn;
  request.speculate = Request::Speculate::kOff;
  request.cache_salt = fmt::format("answer {}", n_verified_);  // no pages of an earlier answer
  request.max_tokens = static_cast<uint32_t>(answer.ids.size());
  if (attested.is_constrained) {
    // The sampled tokens are replaced, so nothing may keep one from being sampled.
    request.sampling = {.temperature = 0};
    request.script = answer.ids;
  } else if (answer.ended_itself) {
    ++request.max_tokens;
  }
  TRY(engine_->check(request));
  const auto sink = std::make_shared<RecordingSink>(attested, choice, n_choices);
  engine_->submit(RequestId{n_verified_++}, std::move(request), sink);
  while (!sink->finish()) engine_->step();
  if (*sink->finish() == FinishReason::kFailed)
    return fail(ErrorCode::kCorrupt, "the model's logits are not finite numbers");
  return difference(answer, *sink);
}

uint64_t longest_sequence(const AttestedAnswer& answer) {
  uint64_t n = 0;
  for (const AttestedAnswer::Prompt& prompt : answer.prompts) {
    for (const AttestedChoice& choice : prompt.choices)
      n = std::max(n, uint64_t{prompt.request.prompt.size()} + choice.ids.size() + 1);
  }
  return n;
}

}  // namespace kvik
