#include <gtest/gtest.h>

#include <set>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kPath = "/v1/completions";

class ServerTenants : public ServerFixture {
 protected:
  void use_keys() {
    options.api_keys = {{.secret = "k1", .name = "ann", .cache_salt = ""},
                        {.secret = "k2", .name = "bob", .cache_salt = "b"},
                        {.secret = "k3", .name = "bill", .cache_salt = "b"}};
  }

  // Returns the service's request for a body with a prompt and these fields.
  CompletionRequest asked(const std::string& fields, const std::string& key = "") {
    const std::string header = key.empty() ? "" : "x-api-key: " + key + "\r\n";
    clients_.push_back(client());
    clients_.back().send_post(kPath, R"({"prompt":"Hi")" + fields + "}", header);
    const auto call = service.wait_for_call(clients_.size() - 1);
    return call ? call->request : CompletionRequest{};
  }

  std::string salt(const std::string& key, const std::string& requested = "") {
    return asked(requested.empty() ? "" : R"(,"cache_salt":")" + requested + "\"", key)
        .engine.cache_salt;
  }

 private:
  std::vector<RawClient> clients_;
};

TEST_F(ServerTenants, without_keys_the_user_is_the_tenant) {
  EXPECT_EQ(asked(R"(,"user":"u")").engine.tenant, "u");
  EXPECT_EQ(asked("").engine.tenant, "");
}

TEST_F(ServerTenants, with_keys_the_name_of_the_key_is_the_tenant) {
  use_keys();
  EXPECT_EQ(asked(R"(,"user":"bob")", "k1").engine.tenant, "ann");
  EXPECT_EQ(asked("", "k2").engine.tenant, "bob");
}

TEST_F(ServerTenants, a_salt_is_shared_only_by_its_keys) {
  use_keys();
  EXPECT_EQ(salt("k1"), "");
  EXPECT_EQ(salt("k2"), salt("k3"));
  EXPECT_EQ(salt("k2", "x"), salt("k3", "x"));
  const std::set<std::string> all = {salt("k1"),      salt("k1", "b"),    salt("k1", "1:b:"),
                                     salt("k2"),      salt("k2", "x"),    salt("k2", "b"),
                                     salt("k1", "x"), salt("k1", "0::x"), salt("k2", "1:b:")};
  EXPECT_EQ(all.size(), 9u) << "no body names its way into another's pages";
}

TEST_F(ServerTenants, without_keys_a_priority_counts_among_all) {
  EXPECT_EQ(asked(R"(,"priority":-5)").engine.ranks, Request::PriorityScope::kAllTenants);
}

TEST_F(ServerTenants, a_priority_counts_among_all_for_the_keys_that_may) {
  use_keys();
  options.api_keys->at(1).may_outrank = true;
  EXPECT_EQ(asked(R"(,"priority":-5)", "k1").engine.ranks, Request::PriorityScope::kOwnTenant);
  EXPECT_EQ(asked(R"(,"priority":-5)", "k2").engine.ranks, Request::PriorityScope::kAllTenants);
}

TEST_F(ServerTenants, without_keys_the_bodys_salt_counts) { EXPECT_EQ(salt("", "x"), "x"); }

TEST_F(ServerTenants, the_explanation_ends_a_stream_and_stands_beside_the_usage) {
  service.answer_with([](FakeCall& call) {
    call.send("Hello");
    call.finish();
    call.done();
  });
  const auto whole =
      json(client().post(kPath, R"({"prompt":"Hi","kvik":{"explain_cache":true}})").body);
  EXPECT_EQ(whole.at_pointer("/kvik/cache/0/cached_tokens/ram"), 1);
  EXPECT_EQ(whole.at_pointer("/kvik/cache/0/computed_tokens"), 2);
  EXPECT_EQ(whole.at_pointer("/kvik/cache/0/miss/expected_token"), 7);
  const auto events =
      client()
          .post(kPath, R"({"prompt":"Hi","stream":true,"kvik":{"explain_cache":true}})")
          .events();
  ASSERT_EQ(events.size(), 4u);
  const auto last = json(events[2]);
  EXPECT_EQ(last.at_pointer("/kvik/cache/0/miss/position"), 1);
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_FALSE(last.as_object().contains("usage"));
  EXPECT_FALSE(json(client().post(kPath, R"({"prompt":"Hi"})").body).as_object().contains("kvik"));
}

TEST_F(ServerTenants, keys_without_a_salt_get_no_expected_tokens) {
  use_keys();
  service.answer_with([](FakeCall& call) {
    call.finish();
    call.done();
  });
  const std::string body = R"({"prompt":"Hi","kvik":{"explain_cache":true}})";
  const auto miss = [&](const std::string& key) {
    const auto answer = client().post(kPath, body, "x-api-key: " + key + "\r\n").body;
    return json(answer).at_pointer("/kvik/cache/0/miss").as_object();
  };
  EXPECT_FALSE(miss("k1").contains("expected_token"));
  EXPECT_TRUE(miss("k2").contains("expected_token"));
}

class SessionTokensRoute : public ServerTenants {
 protected:
  // Answers a chat of a session.
  void chat(const std::string& key, const std::string& fields = "") {
    auto each = client();
    each.send_post(
        "/v1/chat/completions",
        R"({"prompt_cache_key":"s","messages":[{"role":"user","content":"Hi"}])" + fields + "}",
        header_of(key));
    const auto call = service.wait_for_call(n_++);
    ASSERT_TRUE(call);
    CompletionChunk chunk;
    chunk.text = "Yes";
    if (call->request.output.return_token_ids) chunk.token_ids = {4, 5};
    call->send(std::move(chunk));
    call->finish();
    call->done();
    const RawResponse response = each.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body.find("token_ids"), std::string::npos) << response.body;
  }

  RawResponse tokens(const std::string& key, const std::string& query = "") {
    return client().get("/kvik/sessions/s" + query, header_of(key));
  }

 private:
  static std::string header_of(const std::string& key) {
    return key.empty() ? "" : "x-api-key: " + key + "\r\n";
  }
  size_t n_ = 0;
};

TEST_F(SessionTokensRoute, has_the_last_prompt_and_the_answer) {
  expect_error(tokens(""), 404);
  chat("");
  const auto answer = tokens("");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto body = json(answer.body);
  const auto& ids = body.at("tokens").as_array();
  EXPECT_EQ(body.at("prompt_tokens").as_int64() + 2, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(ids.at(ids.size() - 2), 4);
  EXPECT_EQ(ids.back(), 5);
  EXPECT_EQ(string_at(body, "/id"), "s");
}

TEST_F(SessionTokensRoute, no_key_reads_the_tokens_of_another_key) {
  use_keys();
  options.api_keys->at(0).is_operator = true;
  chat("k2");
  EXPECT_EQ(tokens("k2").status, 200);
  for (const char* key : {"k1", "k3"}) {
    expect_error(tokens(key), 404);
    expect_error(tokens(key, "?cache_salt=b"), 404);
  }
}

TEST_F(SessionTokensRoute, a_salt_must_be_given_again) {
  chat("", R"(,"cache_salt":"mine")");
  EXPECT_EQ(tokens("", "?cache_salt=mine").status, 200);
  expect_error(tokens(""), 404);
  expect_error(tokens("", "?cache_salt=other"), 404);
}

TEST_F(SessionTokensRoute, several_choices_are_not_kept) {
  chat("", R"(,"n":2)");
  expect_error(tokens(""), 404);
}

}  // namespace
}  // namespace kvik
