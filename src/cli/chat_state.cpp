#include "cli/chat_state.h"

#include <fmt/format.h>

#include "base/quantity.h"

namespace kvik {
namespace {

uint32_t decoded_tokens(const Usage& usage) {
  return usage.completion_tokens > 1 ? usage.completion_tokens - 1 : 0;
}

// "56 tokens, 210.4 tok/s"
std::string describe_tokens(uint64_t n_tokens, uint64_t n_decoded, Duration decode_time) {
  std::string out = counted(n_tokens, "token");
  if (n_decoded > 0 && decode_time > Duration::zero()) {
    out += fmt::format(", {:.1f} tok/s", static_cast<double>(n_decoded) * 1e3 / to_ms(decode_time));
  }
  return out;
}

}  // namespace

void ChatTotals::add(const Usage& usage) {
  ++n_answers;
  prompt_tokens += usage.prompt_tokens;
  cached_tokens += usage.cached_tokens;
  completion_tokens += usage.completion_tokens;
  decoded_tokens += kvik::decoded_tokens(usage);
  decode_time += usage.decode_time;
  last = usage;
}

ChatRequest ChatState::prompt() const {
  ChatRequest request;
  request.messages = conversation.messages();
  request.history_tokens = history_tokens;
  if (settings.thinking) {
    request.kwargs.emplace_back("enable_thinking", Json{*settings.thinking});
  }
  request.thinking.budget_tokens = settings.reasoning_budget;
  return request;
}

std::string describe(const Usage& usage) {
  return fmt::format(
      "TTFT {:.1f} ms · {} · prompt {}, {} of them cached", to_ms(usage.ttft),
      describe_tokens(usage.completion_tokens, decoded_tokens(usage), usage.decode_time),
      counted(usage.prompt_tokens, "token"), usage.cached_tokens);
}

std::string describe(const ChatTotals& totals) {
  if (totals.n_answers == 0) return "No answer yet.";
  return fmt::format(
      "{} · {} · prompts {}, {} of them cached\nlast: {}", counted(totals.n_answers, "answer"),
      describe_tokens(totals.completion_tokens, totals.decoded_tokens, totals.decode_time),
      counted(totals.prompt_tokens, "token"), totals.cached_tokens, describe(*totals.last));
}

}  // namespace kvik
