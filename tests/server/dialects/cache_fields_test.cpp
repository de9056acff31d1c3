#include "server/dialects/cache_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "server/dialects/completions/completions_request.h"
#include "server/fake_service.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

using std::chrono::seconds;

Result<CompletionCall> parse(const std::string& fields) {
  return parse_completions_call(FakeService(), ParsedBody(R"({"prompt":"a",)" + fields + "}"));
}

CompletionRequest request_of(const std::string& fields) {
  const auto call = parse(fields);
  EXPECT_TRUE(call.has_value()) << fields << ": " << (call ? "" : call.error().message);
  return call ? call->requests.at(0) : CompletionRequest{};
}

std::string refused(const std::string& fields) {
  const auto call = parse(fields);
  return call ? "accepted" : call.error().param;
}

TEST(CacheFields, user_and_priority_are_read) {
  const CompletionRequest request =
      request_of(R"("user":"ann","priority":-3,"cache_salt":"s","prompt_cache_key":"k")");
  EXPECT_EQ(request.engine.tenant, "ann");
  EXPECT_EQ(request.engine.priority, -3);
  EXPECT_EQ(request.engine.cache_salt, "s");
  EXPECT_EQ(request_of(R"("user":null)").engine.tenant, "");
  EXPECT_EQ(request_of(R"("priority":2147483647)").engine.priority, INT32_MAX);
}

TEST(CacheFields, wrong_types_and_ranges_name_the_field) {
  for (const std::string& name :
       std::vector<std::string>{"user", "cache_salt", "prompt_cache_key"}) {
    for (const char* value : {"1", "true", "[]", "{}"})
      EXPECT_EQ(refused("\"" + name + "\":" + value), name) << value;
  }
  for (const char* value : {"\"1\"", "true", "[]", "1.5", "2147483648", "-2147483649", "1e999"})
    EXPECT_EQ(refused(std::string("\"priority\":") + value), "priority") << value;
  EXPECT_EQ(refused(R"("user":")" + std::string(513, 'u') + "\""), "user");
  EXPECT_EQ(refused(R"("kvik":7)"), "kvik");
  EXPECT_EQ(refused(R"("kvik":{"explain_cache":"yes"})"), "kvik.explain_cache");
  EXPECT_EQ(refused(R"("kvik":{"pin":"5m"})"), "kvik.pin");
}

TEST(CacheFields, a_pin_lasts_seconds_minutes_or_hours) {
  const auto ttl = [](const std::string& value) {
    return request_of(R"("kvik":{"pin":{"ttl":)" + value + "}}").pin_ttl;
  };
  EXPECT_EQ(ttl("\"5m\""), seconds(300));
  EXPECT_EQ(ttl("\"1h\""), seconds(3600));
  EXPECT_EQ(ttl("\"45s\""), seconds(45));
  EXPECT_EQ(ttl("\"24h\""), seconds(86400));
  EXPECT_EQ(ttl("90"), seconds(90));
  EXPECT_EQ(request_of(R"("kvik":{"pin":null})").pin_ttl, std::nullopt);
  EXPECT_EQ(request_of(R"("kvik":{})").pin_ttl, std::nullopt);
  for (const char* value : {"\"\"", "\"5\"", "\"m\"", "\"5 m\"", "\"5d\"", "\"-5m\"", "\"0s\"", "0",
                            "-1", "1.5", "true", "null", "\"25h\"", "86401", "\"1.5h\"",
                            "\"99999999999999999999s\"", "\"1000000000h\""})
    EXPECT_EQ(refused(std::string(R"("kvik":{"pin":{"ttl":)") + value + "}}"), "kvik.pin.ttl")
        << value;
}

TEST(CacheFields, an_explanation_is_returned_only_on_request) {
  EXPECT_TRUE(parse(R"("kvik":{"explain_cache":true})")->explain_cache);
  EXPECT_FALSE(parse(R"("kvik":{"explain_cache":false})")->explain_cache);
  EXPECT_FALSE(parse(R"("kvik":{})")->explain_cache);
}

TEST(CacheFields, unknown_options_of_kvik_are_refused) {
  EXPECT_EQ(refused(R"("kvik":{"speculate":false})"), "kvik.speculate");
  EXPECT_EQ(parse(R"("kvik":{"explain":1})").error().message,
            "kvik.explain is not known, expected one of: attest, explain_cache, pin, "
            "restore_answers, schema_language, whitespace");
  EXPECT_EQ(refused(R"("kvik":{"pin":{"ttl":"1h","x":1}})"), "kvik.pin.x");
}

}  // namespace
}  // namespace kvik
