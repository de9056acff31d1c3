#include "cli/chat_session.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/blanks.h"
#include "service/structured_output/grammar_limits.h"

namespace kvik {

ChatSession::ChatSession(Generator& generator, Console& console, Options options)
    : generator_(generator),
      console_(console),
      state_{.conversation = {},
             .settings = options.settings,
             .initial = options.settings,
             .totals = {},
             .history_tokens = {},
             .asked = {},
             .n_regenerated = 0},
      commands_(generator, console, state_, std::move(options.home)) {
  state_.conversation.set_system(std::move(options.system));
}

void ChatSession::greet() {
  const ModelCard& card = generator_.card();
  const std::string place = generator_.place();
  console_.write(fmt::format("{}{}, {} tokens of context. /help lists the commands, Ctrl-D "
                             "leaves.\n\n",
                             card.id, place.empty() ? "" : " of " + place, card.n_ctx_max),
                 TextStyle::kDim);
}

void ChatSession::run() {
  greet();
  for (;;) {
    const auto prompt = input_.is_open() ? Console::Prompt::kMore : Console::Prompt::kFirst;
    const Console::Input line = console_.read(prompt);
    if (line.kind == Console::Input::Kind::kEnd) return;
    if (line.kind == Console::Input::Kind::kInterrupt) {
      if (!input_.is_open() && line.text.empty()) {
        console_.write("Ctrl-D or /bye leaves.\n", TextStyle::kDim);
      }
      input_.reset();
      continue;
    }
    const auto input = input_.push(line.text);
    if (!input || trimmed(*input).empty()) continue;
    console_.remember(input_.typed());
    if (handle(*input) == Next::kLeave) return;
  }
}

ChatSession::Next ChatSession::handle(const std::string& input) {
  if (input.starts_with('/')) {
    const AfterCommand after = commands_.run(input);
    if (after == AfterCommand::kRegenerate) return regenerate();
    if (after == AfterCommand::kLeave) return Next::kLeave;
    console_.write("\n", TextStyle::kPlain);
    return Next::kRead;
  }
  state_.n_regenerated = 0;
  state_.conversation.add("user", input);
  const Outcome outcome = answer();
  if (outcome != Outcome::kAnswered) state_.conversation.pop_last();
  return outcome == Outcome::kLeave ? Next::kLeave : Next::kRead;
}

ChatSession::Next ChatSession::regenerate() {
  Conversation& conversation = state_.conversation;
  std::optional<Message> old;
  if (conversation.ends_with("assistant")) old = conversation.pop_last();
  ++state_.n_regenerated;
  HistoryTokens history_tokens = std::exchange(state_.history_tokens, state_.asked);
  const Outcome outcome = answer();
  if (outcome != Outcome::kAnswered) {
    if (old) conversation.add("assistant", text_of(*old));
    state_.history_tokens = std::move(history_tokens);
  }
  return outcome == Outcome::kLeave ? Next::kLeave : Next::kRead;
}

ChatSession::Outcome ChatSession::answer() {
  CompletionRequest request = state_.settings.request;
  request.output.return_token_ids = true;
  if (request.seed) *request.seed += state_.n_regenerated;
  const auto sink = std::make_shared<AnswerSink>(console_);
  auto running = generator_.answer(state_.prompt(), std::move(request), sink);
  if (!running) {
    explain_refusal(running.error());
    return Outcome::kNothing;
  }
  Console::Wake wake = Console::Wake::kWoken;
  while (wake == Console::Wake::kWoken && !sink->is_done()) wake = console_.wait();
  const Answer answer = sink->close();
  running->completion.reset();  // cancels the request if it is still running
  const Outcome outcome = keep(answer);
  if (!answer.history_tokens.text.empty() && !running->prompt.ids.empty()) {
    state_.asked = std::move(running->prompt);
    state_.history_tokens = state_.asked;
    state_.history_tokens.text += answer.history_tokens.text;
    state_.history_tokens.ids.insert(state_.history_tokens.ids.end(),
                                     answer.history_tokens.ids.begin(),
                                     answer.history_tokens.ids.end());
  }
  console_.write("\n", TextStyle::kPlain);
  return wake == Console::Wake::kLeave ? Outcome::kLeave : outcome;
}

ChatSession::Outcome ChatSession::keep(const Answer& answer) {
  const auto note = [&](std::string_view text) { console_.write(text, TextStyle::kDim); };
  if (answer.usage) state_.totals.add(*answer.usage);
  if (const auto failure = generator_.failure(); failure && !answer.finish) {
    console_.write(failure->message + "\n", TextStyle::kError);
  }
  if (answer.finish == FinishReason::kFailed) {
    console_.write("The model's logits are not finite numbers; your message was removed.\n",
                   TextStyle::kError);
    return Outcome::kNothing;
  }
  if (answer.finish == FinishReason::kExhausted) {
    console_.write(exhausted_error("this answer").message + "; your message was removed.\n",
                   TextStyle::kError);
    return Outcome::kNothing;
  }
  if (answer.has_no_memory) {
    console_.write("There was no memory for this answer; your message was removed.\n",
                   TextStyle::kError);
    return Outcome::kNothing;
  }
  if (!answer.finish && trimmed(answer.content).empty()) {
    note("(stopped before an answer; your message was removed)\n");
    return Outcome::kNothing;
  }
  state_.conversation.add("assistant", answer.content);
  if (!answer.finish) {
    note("(stopped)\n");
  } else if (trimmed(answer.content).empty()) {
    note("(an empty answer)\n");
  }
  if (answer.finish == FinishReason::kLength && answer.usage) {
    const bool is_full = answer.usage->prompt_tokens + answer.usage->completion_tokens >=
                         generator_.card().n_ctx_max;
    note(is_full ? "(cut: the context is full; /clear starts a new conversation)\n"
                 : "(cut at max_tokens)\n");
  }
  if (state_.settings.stats && answer.usage) note(describe(*answer.usage) + "\n");
  return Outcome::kAnswered;
}

void ChatSession::explain_refusal(const Error& error) {
  const bool is_sentence = error.message.ends_with('.');
  std::string sentence = error.message + (is_sentence ? "" : ".");
  if (error.code == ErrorCode::kContextLength) {
    const bool is_first = state_.conversation.n_turns() <= 1;
    sentence = is_first ? fmt::format("Your message is too long: {} It was removed.", sentence)
                        : fmt::format(
                              "The conversation is full: {} Your message was removed "
                              "and nothing is lost; /save FILE keeps the conversation, "
                              "/clear starts a new conversation.",
                              sentence);
  }
  console_.write(sentence + "\n\n", TextStyle::kError);
}

}  // namespace kvik
