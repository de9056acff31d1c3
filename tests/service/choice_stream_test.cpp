#include "service/choice_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "service/tools/tool_format.h"
#include "support/toy_tokenizer.h"

// The end of choices with tool calls, and the answers that are remembered.
namespace kvik {
namespace {

constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";

class RecordingSink final : public CompletionSink {
 public:
  void on_chunk(CompletionChunk chunk) override {
    for (const AnswerPart& part : chunk.parts) append(parts, part);
    if (chunk.finish) finish = chunk.finish;
    ended_itself = chunk.ended_itself;
    chunks.push_back(std::move(chunk));
  }
  void on_done(const Usage&) override {}

  std::vector<AnswerPart> parts;
  std::optional<FinishReason> finish;
  bool ended_itself = false;
  std::vector<CompletionChunk> chunks;
};

class ChoiceStreamTest : public testing::Test {
 protected:
  // Gives the text to a choice, byte by byte, until it ends. Returns the text that it took.
  std::string run(const std::string& text, std::optional<uint32_t> max_calls,
                  FinishReason reason = FinishReason::kStop, std::vector<std::string> stops = {},
                  const ToolFormat& format = hermes_format()) {
    sink = std::make_shared<RecordingSink>();
    memory = std::make_shared<AnswerMemory>(1 << 20);
    auto output = std::make_shared<OutputOptions>();
    output->stop = std::move(stops);
    output->max_calls = max_calls;
    output->answer_begin = AnswerBegin::kText;
    output->answer_syntax.calls = {&format};
    output->answer_syntax.tools = tools;
    output->answer_syntax.reads_bare_calls = reads_bare_calls;
    auto state = std::make_shared<CompletionState>();
    state->sink = sink;
    state->n_running = 1;
    ChoiceStream stream(tokenizer, state,
                        {.output = output,
                         .memory = memory,
                         .origin = {.client = "owner", .conversation = before, .opening = {}}});
    size_t n = 0;
    auto verdict = EventSink::Verdict::kContinue;
    while (n < text.size() && verdict == EventSink::Verdict::kContinue) {
      verdict = stream.on_token({.id = static_cast<TokenId>(text[n++]), .chosen = {}, .top = {}});
    }
    stream.on_finish(verdict == EventSink::Verdict::kStop ? FinishReason::kStop : reason, {});
    return text.substr(0, n);
  }

  // Returns the tokens that are remembered for a message, as text; empty if there are none.
  std::string remembered(const Message& message) const {
    const auto found = memory->find(with_message(before, message));
    return found ? std::string(found->ids.begin(), found->ids.end()) : "";
  }
  static Message called(uint32_t n = 1, std::string text = "") {
    Message message = text_message("assistant", std::move(text));
    for (uint32_t i = 0; i < n; ++i) {
      message.parts.push_back(ToolCall{.id = {}, .name = "f", .arguments = *parse_json("{}")});
    }
    return message;
  }
  static size_t n_calls(const std::vector<AnswerPart>& parts) {
    return static_cast<size_t>(
        std::ranges::count(parts, AnswerPart::Kind::kCall, &AnswerPart::kind));
  }

  const ToyTokenizer tokenizer{""};
  const std::shared_ptr<const ToolSchemas> tools = std::make_shared<const ToolSchemas>(
      std::vector<Json>{*parse_json(R"({"type": "function", "function": {"name": "f"}})")});
  bool reads_bare_calls = false;
  const ConversationKey before = conversation_key({.client = "owner", .scope = ""});
  std::shared_ptr<RecordingSink> sink;
  std::shared_ptr<AnswerMemory> memory;
};

TEST_F(ChoiceStreamTest, ends_at_the_closing_mark_of_the_last_call_that_is_allowed) {
  const std::string call(kCall);
  EXPECT_EQ(run(call + "\n" + call, 1), call);
  EXPECT_EQ(n_calls(sink->parts), 1);
  EXPECT_EQ(sink->finish, FinishReason::kStop);
  EXPECT_FALSE(sink->ended_itself);
  EXPECT_EQ(remembered(called()), call);

  const std::string two = fmt::format("So: {}\n{}", call, call);
  EXPECT_EQ(run(two + call, 2), two);
  EXPECT_EQ(n_calls(sink->parts), 2);
  EXPECT_EQ(remembered(called(2, "So:")), two);
}

TEST_F(ChoiceStreamTest, ends_by_itself_with_any_number_of_calls) {
  const std::string text = fmt::format("{}\n{}", kCall, kCall);
  EXPECT_EQ(run(text, std::nullopt), text);
  EXPECT_EQ(n_calls(sink->parts), 2);
  EXPECT_TRUE(sink->ended_itself);
  EXPECT_EQ(remembered(called(2)), text);
}

TEST_F(ChoiceStreamTest, waits_for_the_closing_mark_only_a_while) {
  const std::string open = std::string(kCall.substr(0, kCall.find("\n</tool_call>")));
  const std::string blanks(100, ' ');
  EXPECT_LT(run(open + blanks, 1).size(), open.size() + 20);
  EXPECT_EQ(n_calls(sink->parts), 1);
  EXPECT_EQ(sink->finish, FinishReason::kStop);
  EXPECT_EQ(remembered(called()), "") << "the tokens cannot be continued";
}

TEST_F(ChoiceStreamTest, drops_what_comes_after_the_call_in_a_list_of_calls) {
  const ToolFormat* format = find_tool_format("mistral");
  ASSERT_TRUE(format);
  const std::string list = R"([TOOL_CALLS][{"name": "f", "arguments": {}})";
  for (const std::string_view rest : {R"(, {"name": "f", "arguments": {}}])", " and so on", "]"}) {
    run(list + std::string(rest), 1, FinishReason::kStop, {}, *format);
    EXPECT_EQ(n_calls(sink->parts), 1) << rest;
    EXPECT_EQ(text_of(sink->parts, AnswerPart::Kind::kText), "") << rest;
    EXPECT_EQ(remembered(called()).empty(), rest != "]") << rest;
  }
}

TEST_F(ChoiceStreamTest, is_complete_without_the_closing_mark) {
  const std::string open = std::string(kCall.substr(0, kCall.size() - 3));
  run(open, 1, FinishReason::kLength);
  EXPECT_EQ(n_calls(sink->parts), 1);
  EXPECT_EQ(sink->finish, FinishReason::kStop);
  EXPECT_EQ(remembered(called()), "");
  run(open, std::nullopt, FinishReason::kLength);
  EXPECT_EQ(sink->finish, FinishReason::kLength);
}

TEST_F(ChoiceStreamTest, remembers_only_what_the_client_got_whole) {
  EXPECT_EQ(run("Yes, of course.", std::nullopt), "Yes, of course.");
  EXPECT_EQ(remembered(text_message("assistant", "Yes, of course.")), "Yes, of course.");
  run("Yes, of course.", std::nullopt, FinishReason::kStop, {"of"});
  EXPECT_EQ(remembered(text_message("assistant", "Yes, ")), "");
  run("Yes, of", std::nullopt, FinishReason::kLength);
  EXPECT_EQ(remembered(text_message("assistant", "Yes, of")), "") << "a call may have begun";
  run("Yes.", std::nullopt, FinishReason::kCancelled);
  EXPECT_EQ(remembered(text_message("assistant", "Yes.")), "");
}

TEST_F(ChoiceStreamTest, remembers_no_calls_without_markup) {
  run(std::string(kCall), std::nullopt);
  EXPECT_EQ(remembered(called()), kCall);
  reads_bare_calls = true;
  run(std::string(kCall), std::nullopt);
  EXPECT_EQ(remembered(called()), kCall);
  run("```json\n{\"name\": \"f\", \"arguments\": {}}\n```", std::nullopt);
  EXPECT_EQ(n_calls(sink->parts), 1u);
  EXPECT_EQ(remembered(called()), "");
}

// Returns the ids of each chunk of an answer.
std::vector<std::vector<TokenId>> ids_of_chunks(const std::vector<TokenId>& ids,
                                                bool return_token_ids) {
  const ToyTokenizer tokenizer{""};
  const auto sink = std::make_shared<RecordingSink>();
  auto output = std::make_shared<OutputOptions>();
  output->return_token_ids = return_token_ids;
  output->stop = {"xyz"};
  auto state = std::make_shared<CompletionState>();
  state->sink = sink;
  state->n_running = 1;
  ChoiceStream stream(tokenizer, state, {.output = output});
  for (const TokenId id : ids) stream.on_token({.id = id, .chosen = {}, .top = {}});
  stream.on_finish(FinishReason::kLength, {});
  std::vector<std::vector<TokenId>> all;
  for (const CompletionChunk& chunk : sink->chunks) all.push_back(chunk.token_ids);
  return all;
}

TEST(ChoiceStream, a_token_without_text_has_a_chunk_if_ids_are_asked_for) {
  using Ids = std::vector<std::vector<TokenId>>;
  EXPECT_EQ(ids_of_chunks({kEnd, kEnd, 'a'}, true), (Ids{{kEnd}, {kEnd}, {'a'}, {}}));
  EXPECT_EQ(ids_of_chunks({kEnd, kEnd, 'a'}, false), (Ids{{}, {}}));
}

TEST(ChoiceStream, a_token_without_text_waits_for_earlier_text) {
  using Ids = std::vector<std::vector<TokenId>>;
  constexpr TokenId kFirstOfTwo = 0xC3, kSecondOfTwo = 0xA9;
  EXPECT_EQ(ids_of_chunks({kFirstOfTwo, kEnd, kSecondOfTwo}, true),
            (Ids{{kFirstOfTwo, kEnd, kSecondOfTwo}, {}}));
  EXPECT_EQ(ids_of_chunks({'x', kEnd, 'a'}, true), (Ids{{'x', kEnd, 'a'}, {}}));
}

}  // namespace
}  // namespace kvik
