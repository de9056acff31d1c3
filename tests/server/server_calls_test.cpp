#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server_fixture.h"

// Tool calls in each dialect: streamed, cut off, and in OpenAI's older format (function_call).
namespace kvik {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kMessages = "/v1/messages";
constexpr const char* kResponses = "/v1/responses";
constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";
constexpr const char* kSchema =
    R"({"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}})";
// A tool of Anthropic's dialect whose arguments are streamed as they come.
constexpr const char* kEager = R"(,"eager_input_streaming":true)";

class ServerCalls : public ServerFixture {
 protected:
  // Answers the following requests with this text.
  void say(std::vector<std::string> pieces, FinishReason reason = FinishReason::kStop) {
    pieces_ = std::move(pieces);
    reason_ = reason;
    if (std::exchange(is_answering_, true)) return;
    service.answer_with([this](FakeCall& call) {
      call.begin();
      for (const std::string& piece : pieces_) call.send(piece);
      call.finish(reason_);
      call.done();
    });
  }

  static std::string chat_body(const std::string& more = "") {
    return std::string("{") + kHi + R"(,"tools":[{"type":"function","function":{"name":"write",)" +
           R"("parameters":)" + kSchema + "}}]" + more + "}";
  }
  static std::string messages_body(const std::string& more = "", const char* more_of_tool = "") {
    return std::string("{") + kHi + R"(,"max_tokens":99,"tools":[{"name":"write","input_schema":)" +
           kSchema + more_of_tool + "}]" + more + "}";
  }
  static std::string responses_body(const std::string& more = "") {
    return std::string(
               R"({"input":"Hi","tools":[{"type":"function","name":"write","parameters":)") +
           kSchema + R"(},{"type":"custom","name":"patch"}])" + more + "}";
  }

  // Returns the non-empty strings at that JSON pointer of all events.
  static std::vector<std::string> all_at(const std::vector<std::string>& events,
                                         const char* pointer) {
    std::vector<std::string> all;
    for (const std::string& event : events) {
      if (event == "[DONE]") continue;
      std::string text = string_at(json(event), pointer);
      if (!text.empty()) all.push_back(std::move(text));
    }
    return all;
  }

  std::string prompt_of(size_t i = 0) {
    const auto call = service.wait_for_call(i);
    if (!call) return "no call";
    const auto& ids = std::get<std::vector<TokenId>>(call->request.prompt);
    return {ids.begin(), ids.end()};
  }

 private:
  std::vector<std::string> pieces_;
  FinishReason reason_ = FinishReason::kStop;
  bool is_answering_ = false;
};

constexpr const char* kFunctions =
    R"(,"functions":[{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}])";
constexpr const char* kAdd =
    "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>";

const std::vector<std::string> kPieces = {"<tool_call>\n{\"name\": \"write\", \"arg",
                                          "uments\": {\"path\": \"a\", ", "\"text\": \"one ",
                                          "two\"}}\n</tool_call>"};
const std::vector<std::string> kArguments = {R"({"path": "a")", R"(, "text": "one )", R"(two"})"};
constexpr const char* kWhole = R"({"path": "a", "text": "one two"})";
constexpr const char* kAll =
    "<tool_call>\n{\"name\": \"write\", \"arguments\": "
    "{\"path\": \"a\", \"text\": \"one two\"}}\n</tool_call>";

TEST_F(ServerCalls, arguments_are_streamed_as_they_come) {
  say(kPieces);
  const char* stream = R"(,"stream":true)";
  const auto chat = client().post(kChat, chat_body(stream)).events();
  EXPECT_EQ(all_at(chat, "/choices/0/delta/tool_calls/0/function/arguments"), kArguments);
  EXPECT_EQ(all_at(chat, "/choices/0/delta/tool_calls/0/function/name"),
            std::vector<std::string>{"write"});
  EXPECT_EQ(all_at(chat, "/choices/0/finish_reason"), std::vector<std::string>{"tool_calls"});
  const auto messages = client().post(kMessages, messages_body(stream, kEager)).events();
  EXPECT_EQ(all_at(messages, "/delta/partial_json"), kArguments);
  const auto responses = client().post(kResponses, responses_body(stream)).events();
  EXPECT_EQ(all_at(responses, "/delta"), kArguments);
  EXPECT_EQ(all_at(responses, "/arguments"), std::vector<std::string>{kWhole});
}

TEST_F(ServerCalls, custom_tools_input_is_streamed_as_it_comes) {
  say({"<tool_call>{\"name\": \"patch\", \"arguments\": {\"inp", "ut\": \"*** \\u00e", "9\\nb\\",
       "\"c\"}}</tool_call>"});
  const auto events = client().post(kResponses, responses_body(R"(,"stream":true)")).events();
  EXPECT_EQ(all_at(events, "/delta"), (std::vector<std::string>{"*** ", "\u00e9\nb", "\"c"}));
  EXPECT_EQ(all_at(events, "/input"), std::vector<std::string>{"*** \u00e9\nb\"c"});
}

constexpr const char* kBroken =
    "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": \"a\", \"text\": \"one";
constexpr const char* kPartial = R"({"path": "a", "text": "one)";

struct Ends {
  FinishReason finish;
  const char *chat, *messages, *responses;
};
constexpr Ends kEnds[] = {{FinishReason::kStop, "stop", "end_turn", "completed"},
                          {FinishReason::kLength, "length", "max_tokens", "incomplete"}};

TEST_F(ServerCalls, call_that_breaks_off_is_the_text_of_a_whole_answer) {
  const std::string text = std::string("So: ") + kBroken;
  for (const Ends& ends : kEnds) {
    say({text}, ends.finish);
    const auto chat = json(client().post(kChat, chat_body()).body);
    EXPECT_EQ(string_at(chat, "/choices/0/finish_reason"), ends.chat);
    EXPECT_EQ(string_at(chat, "/choices/0/message/content"), text);
    EXPECT_FALSE(chat.at_pointer("/choices/0/message").as_object().contains("tool_calls"));
    const auto message = json(client().post(kMessages, messages_body()).body);
    EXPECT_EQ(string_at(message, "/stop_reason"), ends.messages);
    EXPECT_EQ(boost::json::serialize(message.at("content")),
              boost::json::serialize(boost::json::array{{{"type", "text"}, {"text", text}}}));
    const auto response = json(client().post(kResponses, responses_body()).body);
    EXPECT_EQ(string_at(response, "/status"), ends.responses);
    EXPECT_EQ(string_at(response, "/output/0/type"), "message");
    EXPECT_EQ(string_at(response, "/output/0/content/0/text"), text);
    EXPECT_EQ(response.at("output").as_array().size(), 1u);
  }
}

// The name and a part of the arguments have been sent.
TEST_F(ServerCalls, stream_says_that_a_call_breaks_off) {
  const char* stream = R"(,"stream":true)";
  for (const Ends& ends : kEnds) {
    say({kBroken}, ends.finish);
    const auto chat = client().post(kChat, chat_body(stream)).events();
    EXPECT_EQ(all_at(chat, "/choices/0/delta/tool_calls/0/function/name"),
              std::vector<std::string>{"write"});
    EXPECT_EQ(all_at(chat, "/choices/0/delta/tool_calls/0/function/arguments"),
              std::vector<std::string>{kPartial});
    EXPECT_EQ(all_at(chat, "/choices/0/delta/content"), std::vector<std::string>{});
    EXPECT_EQ(all_at(chat, "/choices/0/finish_reason"), std::vector<std::string>{ends.chat});
    const auto messages = client().post(kMessages, messages_body(stream, kEager)).events();
    EXPECT_EQ(all_at(messages, "/delta/partial_json"), std::vector<std::string>{kPartial});
    EXPECT_EQ(all_at(messages, "/delta/stop_reason"), std::vector<std::string>{ends.messages});
    EXPECT_EQ(all_at(messages, "/content_block/type"), std::vector<std::string>{"tool_use"});
    const auto responses = client().post(kResponses, responses_body(stream)).events();
    EXPECT_EQ(all_at(responses, "/delta"), std::vector<std::string>{kPartial});
    EXPECT_EQ(all_at(responses, "/item/status"),
              (std::vector<std::string>{"in_progress", "incomplete"}));
    EXPECT_EQ(all_at(responses, "/response/status").back(), ends.responses);
    EXPECT_EQ(all_at(responses, "/response/output/0/status"),
              std::vector<std::string>{"incomplete"});
  }
}

TEST_F(ServerCalls, stream_has_the_text_after_a_call_that_breaks_off) {
  say({"<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": ", "1x} no", " more"});
  const std::vector<std::string> text = {"1x} no", " more"};
  const char* stream = R"(,"stream":true)";
  const auto chat = client().post(kChat, chat_body(stream)).events();
  EXPECT_EQ(all_at(chat, "/choices/0/delta/content"), text);
  EXPECT_EQ(all_at(chat, "/choices/0/finish_reason"), std::vector<std::string>{"stop"});
  const auto messages = client().post(kMessages, messages_body(stream, kEager)).events();
  EXPECT_EQ(all_at(messages, "/content_block/type"),
            (std::vector<std::string>{"tool_use", "text"}));
  EXPECT_EQ(all_at(messages, "/delta/text"), text);
  EXPECT_EQ(all_at(messages, "/delta/stop_reason"), std::vector<std::string>{"end_turn"});
  const auto responses = client().post(kResponses, responses_body(stream)).events();
  EXPECT_EQ(all_at(responses, "/response/output/0/status"), std::vector<std::string>{"incomplete"});
  EXPECT_EQ(all_at(responses, "/response/output/1/status"), std::vector<std::string>{"completed"});
}

TEST_F(ServerCalls, call_after_one_that_breaks_off_counts) {
  say({"<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": ",
       "1x\n" + std::string(kAll)});
  const auto chat = client().post(kChat, chat_body(R"(,"stream":true)")).events();
  EXPECT_EQ(all_at(chat, "/choices/0/delta/tool_calls/0/function/arguments"),
            (std::vector<std::string>{"{\"path\": ", kWhole}));
  EXPECT_EQ(all_at(chat, "/choices/0/finish_reason"), std::vector<std::string>{"tool_calls"});
  const auto whole = json(client().post(kChat, chat_body()).body);
  EXPECT_EQ(string_at(whole, "/choices/0/message/tool_calls/0/function/arguments"), kWhole);
  EXPECT_EQ(string_at(whole, "/choices/0/message/content"),
            "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": 1x");
}

// Anthropic's client completes JSON that is cut off, so that a part of a call would look whole.
TEST_F(ServerCalls, streams_of_anthropics_dialect_have_whole_calls_only) {
  std::vector<std::string> pieces = kPieces;
  pieces.push_back("\n" + std::string(kBroken));
  say(pieces);
  const auto events = client().post(kMessages, messages_body(R"(,"stream":true)")).events();
  EXPECT_EQ(all_at(events, "/content_block/type"), (std::vector<std::string>{"tool_use", "text"}));
  EXPECT_EQ(all_at(events, "/delta/partial_json"), std::vector<std::string>{kWhole});
  EXPECT_EQ(all_at(events, "/delta/text"), std::vector<std::string>{kBroken});
  EXPECT_EQ(all_at(events, "/delta/stop_reason"), std::vector<std::string>{"tool_use"});
  const auto whole = json(client().post(kMessages, messages_body()).body);
  EXPECT_EQ(string_at(whole, "/content/1/text"), kBroken);
}

// Clients join the names of all function_call of a stream.
TEST_F(ServerCalls, streams_of_functions_have_whole_calls_only) {
  say({"<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": ", "oops}}</tool_call>", " or ",
       "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>"});
  const std::string body = std::string("{") + kHi + kFunctions;
  const auto events = client().post(kChat, body + R"(,"stream":true})").events();
  EXPECT_EQ(all_at(events, "/choices/0/delta/function_call/name"), std::vector<std::string>{"add"});
  EXPECT_EQ(all_at(events, "/choices/0/delta/function_call/arguments"),
            std::vector<std::string>{R"({"a": 1})"});
  std::string text;
  for (const std::string& part : all_at(events, "/choices/0/delta/content")) text += part;
  const auto whole = json(client().post(kChat, body + "}").body);
  EXPECT_EQ(text, string_at(whole, "/choices/0/message/content"));
}

TEST_F(ServerCalls, cut_before_the_arguments_is_text) {
  say({"<tool_call>\n{\"na"}, FinishReason::kLength);
  const auto chat = json(client().post(kChat, chat_body()).body);
  EXPECT_EQ(string_at(chat, "/choices/0/finish_reason"), "length");
  EXPECT_EQ(string_at(chat, "/choices/0/message/content"), "<tool_call>\n{\"na");
  const auto message = json(client().post(kMessages, messages_body()).body);
  EXPECT_EQ(string_at(message, "/content/0/text"), "<tool_call>\n{\"na");
}

TEST_F(ServerCalls, numbers_are_as_the_model_wrote_them) {
  const char* arguments = R"({"path":123456789012345678901234567890,"x":[1e400,1.50]})";
  say({std::string("<tool_call>{\"name\": \"write\", \"arguments\": ") + arguments +
       "}</tool_call>"});
  const std::string chat = client().post(kChat, chat_body()).body;
  EXPECT_EQ(string_at(json(chat), "/choices/0/message/tool_calls/0/function/arguments"), arguments);
  const std::string message = client().post(kMessages, messages_body()).body;
  EXPECT_TRUE(message.contains(std::string("\"input\":") + arguments + "}]")) << message;
}

TEST_F(ServerCalls, anthropics_answer_without_text_has_no_empty_block) {
  say({"<think>hm</think>"});
  const auto value = json(client().post(kMessages, messages_body()).body);
  ASSERT_EQ(value.at("content").as_array().size(), 1u);
  EXPECT_EQ(string_at(value, "/content/0/type"), "thinking");
  const auto events = client().post(kMessages, messages_body(R"(,"stream":true)")).events();
  EXPECT_EQ(all_at(events, "/content_block/type"), std::vector<std::string>{"thinking"});
}

TEST_F(ServerCalls, functions_are_tools_and_answered_in_their_form) {
  say({kAdd});
  const std::string body = std::string("{") + kHi + kFunctions;
  const auto value = json(client().post(kChat, body + "}").body);
  EXPECT_EQ(prompt_of(), "user: Hi\ntool add\nassistant:");
  EXPECT_EQ(string_at(value, "/choices/0/finish_reason"), "function_call");
  EXPECT_EQ(boost::json::serialize(value.at_pointer("/choices/0/message/function_call")),
            R"({"name":"add","arguments":"{\"a\": 1}"})");
  EXPECT_FALSE(value.at_pointer("/choices/0/message").as_object().contains("tool_calls"));
  const auto events = client().post(kChat, body + R"(,"stream":true})").events();
  EXPECT_EQ(all_at(events, "/choices/0/delta/function_call/name"), std::vector<std::string>{"add"});
  EXPECT_EQ(all_at(events, "/choices/0/delta/function_call/arguments"),
            std::vector<std::string>{R"({"a": 1})"});
  EXPECT_EQ(all_at(events, "/choices/0/finish_reason"), std::vector<std::string>{"function_call"});
}

TEST_F(ServerCalls, function_call_is_a_tool_choice) {
  say({kAdd});
  const std::string body = std::string("{") + kHi + kFunctions;
  client().post(kChat, body + R"(,"function_call":{"name":"add"}})");
  EXPECT_TRUE(service.wait_for_call(0)->request.form.has_value());
  client().post(kChat, body + R"(,"function_call":"none"})");
  EXPECT_EQ(prompt_of(1), prompt_of(0));
  EXPECT_FALSE(service.wait_for_call(1)->request.form.has_value());
  EXPECT_TRUE(service.wait_for_call(1)->request.output.answer_syntax.calls.empty());
  EXPECT_EQ(expect_error(client().post(kChat, body + R"(,"function_call":7})"), 400),
            "function_call");
  EXPECT_EQ(expect_error(client().post(kChat, body + R"(,"function_call":{"name":"sub"}})"), 400),
            "tool_choice");
}

TEST_F(ServerCalls, function_calls_of_earlier_turns_reach_the_template) {
  say({"3"});
  client().post(
      kChat, R"({"messages":[{"role":"user","content":"1+2"},{"role":"assistant","content":null,)"
             R"("function_call":{"name":"add","arguments":"{\"a\":1}"}},)"
             R"({"role":"function","name":"add","content":"3"}]})");
  EXPECT_EQ(prompt_of(), "user: 1+2\nassistant: None\ncall add a=1\nfunction: 3\nassistant:");
}

TEST_F(ServerCalls, paths_without_v1_are_served_too) {
  say({"Hello"});
  const auto value = json(client().post("/chat/completions", std::string("{") + kHi + "}").body);
  EXPECT_EQ(string_at(value, "/choices/0/message/content"), "Hello");
  EXPECT_EQ(client().get("/models").body, client().get("/v1/models").body);
}

TEST_F(ServerCalls, tokenize_takes_a_conversation_and_a_prompt_as_completions_do) {
  const auto chat = json(client().post("/tokenize", std::string("{") + kHi + "}").body);
  const std::string text = "user: Hi\nassistant:";
  EXPECT_EQ(chat.at("count"), text.size());
  EXPECT_EQ(chat.at("tokens").as_array().size(), text.size());
  // The fake adds token 1 for add_bos and token 2 for parse_special.
  const auto prompt = json(client().post("/tokenize", R"({"prompt":"a"})").body);
  EXPECT_EQ(boost::json::serialize(prompt.at("tokens")), "[1,2,97]");
  const auto without =
      json(client().post("/tokenize", R"({"prompt":"a","add_special_tokens":false})").body);
  EXPECT_EQ(boost::json::serialize(without.at("tokens")), "[2,97]");
  EXPECT_EQ(expect_error(client().post("/tokenize", R"({"messages":[]})"), 400), "messages");
}

TEST_F(ServerCalls, input_of_a_response_is_counted_and_listed) {
  say({"Hello"});
  const auto count = json(client().post("/v1/responses/input_tokens", R"({"input":"Hi"})").body);
  EXPECT_EQ(string_at(count, "/object"), "response.input_tokens");
  EXPECT_EQ(count.at("input_tokens"), std::string("user: Hi\nassistant:").size());
  // The prompt is counted whatever the request says about the answer.
  for (const char* const fields :
       {R"("background":true,"stream":true)", R"("background":true,"store":false)"}) {
    const auto other =
        client().post("/v1/responses/input_tokens", fmt::format(R"({{"input":"Hi",{}}})", fields));
    EXPECT_EQ(other.status, 200) << other.body;
    EXPECT_EQ(json(other.body), count);
  }
  const std::string id =
      string_at(json(client().post(kResponses, R"({"input":"Hi"})").body), "/id");
  const std::string next = string_at(
      json(client()
               .post(kResponses, R"({"input":"More","previous_response_id":")" + id + R"("})")
               .body),
      "/id");
  const std::string path = "/v1/responses/" + next + "/input_items";
  const auto all = json(client().get(path + "?order=asc").body);
  ASSERT_EQ(all.at("data").as_array().size(), 3u);
  EXPECT_EQ(string_at(all, "/data/0/content/0/text"), "Hi");
  EXPECT_EQ(string_at(all, "/data/0/content/0/type"), "input_text");
  EXPECT_EQ(string_at(all, "/data/1/content/0/text"), "Hello");
  EXPECT_EQ(string_at(all, "/data/2/content/0/text"), "More");
  const auto first = json(client().get(path + "?limit=1").body);
  EXPECT_EQ(string_at(first, "/data/0/content/0/text"), "More") << "the newest comes first";
  EXPECT_EQ(first.at("has_more"), true);
  const auto rest =
      json(client().get(path + "?limit=5&after=" + string_at(first, "/last_id")).body);
  EXPECT_EQ(rest.at("data").as_array().size(), 2u);
  EXPECT_EQ(rest.at("has_more"), false);
  EXPECT_EQ(expect_error(client().get(path + "?limit=0"), 400), "limit");
  EXPECT_EQ(expect_error(client().get(path + "?after=nothing"), 400), "after");
  EXPECT_EQ(expect_error(client().get("/v1/responses/resp_no/input_items"), 404), "response_id");
}

}  // namespace
}  // namespace kvik
