#include "server/dialects/responses/responses_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kvik {
namespace {

std::string error_events(ErrorCode code) {
  AnswerEnvelope envelope;
  envelope.id = "resp_1";
  return make_responses_writer(std::move(envelope), {.echo = {}})->error({code, "why"});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ResponsesWriter, the_events_of_an_error_have_its_code) {
  const std::pair<ErrorCode, std::string> cases[] = {
      {ErrorCode::kContextLength, "context_length_exceeded"},
      {ErrorCode::kExhausted, "overloaded"},
      {ErrorCode::kUnavailable, "shutting_down"},
      {ErrorCode::kUnsupported, "unsupported"},
      {ErrorCode::kInvalidArgument, "invalid_prompt"},
      {ErrorCode::kIo, "server_error"}};
  for (const auto& [code, name] : cases) {
    const std::string events = error_events(code);
    EXPECT_TRUE(contains(events, R"("error":{"code":")" + name + R"(","message":"why"})"))
        << events;
    EXPECT_TRUE(contains(events, R"("code":")" + name + R"(","message":"why","param":null)"))
        << events;
  }
}

}  // namespace
}  // namespace kvik
