#include "service/sampling/sampling_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/dialects/chat/chat_request.h"
#include "server/dialects/completions/completions_request.h"
#include "server/dialects/messages/messages_request.h"
#include "server/dialects/responses/responses_request.h"
#include "server/fake_service.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

double value_of(const SamplingField& field, const Result<CompletionCall>& call) {
  if (!call) return -1;
  return std::visit(
      [&](const auto& number) -> double {
        return number.of(call->requests.front().engine.sampling);
      },
      field.number);
}

TEST(SamplingFields, reach_the_engine_from_every_dialect) {
  const FakeService service;
  for (const SamplingField& field : sampling_fields()) {
    const bool is_whole = std::holds_alternative<SamplingNumber<uint32_t>>(field.number);
    const double value = is_whole ? 7 : 0.5;
    const std::string given = fmt::format(R"("{}":{},)", field.name, value);
    const std::string chat = "{" + given + R"("messages":[{"role":"user","content":"x"}]})";
    const std::string name(field.name);
    EXPECT_EQ(value_of(field, parse_completions_call(service,
                                                     ParsedBody("{" + given + R"("prompt":"x"})"))),
              value)
        << name;
    EXPECT_EQ(value_of(field, parse_chat_call(service, ParsedBody(chat))), value) << name;
    EXPECT_EQ(value_of(field, parse_messages_call(service, ParsedBody(chat))), value) << name;
    const auto responses =
        parse_responses_call(service, ParsedBody("{" + given + R"("input":"x"})"));
    ASSERT_TRUE(responses.has_value()) << name;
    EXPECT_EQ(value_of(field, responses->call), value) << name;
  }
}

}  // namespace
}  // namespace kvik
