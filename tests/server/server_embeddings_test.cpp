#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <thread>

#include "server_fixture.h"

namespace kvik {
namespace {

constexpr const char* kPath = "/v1/embeddings";

using ServerEmbeddings = ServerFixture;

TEST_F(ServerEmbeddings, an_answer_has_openais_shape) {
  const RawResponse response =
      client().post(kPath, R"({"input":["a","bcd"],"model":"tiny/model"})");
  EXPECT_EQ(response.status, 200);
  // The BOS token of each text counts as well.
  EXPECT_EQ(response.body,
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,0]},)"
            R"({"object":"embedding","index":1,"embedding":[1,0]}],"model":"tiny/model",)"
            R"("usage":{"prompt_tokens":6,"total_tokens":6,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST_F(ServerEmbeddings, texts_and_token_ids_come_alone_or_in_lists) {
  struct Case {
    const char* input;
    std::vector<size_t> n_tokens;
  };
  for (const Case& c : {Case{R"("ab")", {3}}, Case{R"([7,8])", {2}}, Case{R"(["ab","c"])", {3, 2}},
                        Case{R"([[7,8,9],[1]])", {3, 1}}, Case{R"(["a",[5]])", {2, 1}}}) {
    const size_t n_before = service.embedded().size();
    const RawResponse response = client().post(kPath, std::string(R"({"input":)") + c.input + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    const std::vector<EmbeddingRequest> requests = service.embedded();
    ASSERT_EQ(requests.size(), n_before + c.n_tokens.size()) << c.input;
    for (size_t i = 0; i < c.n_tokens.size(); ++i)
      EXPECT_EQ(requests[n_before + i].engine.prompt.size(), c.n_tokens[i]) << c.input;
  }
}

TEST_F(ServerEmbeddings, base64_holds_the_floats_bytes) {
  const auto value = json(client().post(kPath, R"({"input":"a","encoding_format":"base64"})").body);
  EXPECT_EQ(string_at(value, "/data/0/embedding"), "AAAAPwAAAAA=");  // 0.5, 0
}

TEST_F(ServerEmbeddings, pooling_dimensions_and_user_are_passed_on) {
  client().post(kPath, R"({"input":"a","pooling":"last","dimensions":2,"user":"u","priority":-3})");
  ASSERT_EQ(service.embedded().size(), 1u);
  const EmbeddingRequest request = service.embedded().front();
  EXPECT_EQ(request.pooling, EmbeddingRequest::Pooling::kLast);
  EXPECT_EQ(request.n_dims, 2u);
  EXPECT_EQ(request.engine.tenant, "u");
  EXPECT_EQ(request.engine.priority, -3);
}

TEST_F(ServerEmbeddings, norms_and_truncation_are_passed_on) {
  using Kind = EmbeddingRequest::Norm::Kind;
  const auto request = [&](const std::string& fields) {
    client().post(kPath, R"({"input":"a",)" + fields + "}");
    return service.embedded().back();
  };
  EXPECT_EQ(request(R"("embd_normalize":-1)").norm.kind, Kind::kNone);
  EXPECT_EQ(request(R"("embd_normalize":0)").norm.kind, Kind::kMaxInt16);
  EXPECT_EQ(request(R"("embd_normalize":3)").norm.p, 3);
  EXPECT_EQ(request(R"("normalize":false)").norm.kind, Kind::kNone);
  EXPECT_EQ(request(R"("normalize":true)").truncate_to, std::nullopt);
  EXPECT_EQ(request(R"("truncate":true)").truncate_to, 0u);
  EXPECT_EQ(request(R"("truncate_prompt_tokens":-1)").truncate_to, 0u);
  EXPECT_EQ(request(R"("truncate_prompt_tokens":7)").truncate_to, 7u);
  EXPECT_EQ(request(R"("pooling":"cls")").pooling, Pooling::kCls);
  EXPECT_EQ(request(R"("user":"u")").pooling, std::nullopt);
  EXPECT_EQ(client().post(kPath, R"({"input":"a","embd_normalize":-2})").status, 400);
  EXPECT_EQ(client().post(kPath, R"({"input":"a","pooling":"max"})").status, 400);
}

TEST_F(ServerEmbeddings, a_call_of_many_texts_is_drained_before_the_engine) {
  constexpr size_t kTexts = 40;
  std::string texts = R"("a")";
  for (size_t i = 1; i < kTexts; ++i) texts += R"(,"a")";
  service.hold_embeddings();
  RawClient c = client();
  c.send_post(kPath, R"({"input":[)" + texts + "]}");
  size_t n_answered = service.answer_embeddings(1);
  EXPECT_LT(n_answered, kTexts);
  server->stop_accepting();
  EXPECT_FALSE(server->wait_for_submissions(std::chrono::milliseconds(1)));
  while (n_answered < kTexts - 1) {
    const size_t n = service.answer_embeddings(1);
    ASSERT_GT(n, 0u);
    n_answered += n;
  }
  EXPECT_TRUE(server->wait_for_submissions(kTestTimeout));
  EXPECT_EQ(service.embedded().size(), kTexts);
  if (n_answered < kTexts) service.answer_embeddings(1);
  EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(ServerEmbeddings, a_reader_that_takes_nothing_does_not_delay_the_drain) {
  options.socket_send_buffer_bytes = 4096;
  std::string texts = R"("a")";
  for (int i = 1; i < 2000; ++i) texts += R"(,"a")";
  RawClient c = client(4096);
  c.send_post(kPath, R"({"input":[)" + texts + "]}");
  while (service.embedded().size() < 2000) std::this_thread::yield();
  server->stop_accepting();
  EXPECT_TRUE(server->wait_for_submissions(kTestTimeout));
}

TEST_F(ServerEmbeddings, a_key_names_the_tenant) {
  options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "ann"}};
  client().post(kPath, R"({"input":"a","user":"u"})", "Authorization: Bearer k\r\n");
  ASSERT_EQ(service.embedded().size(), 1u);
  EXPECT_EQ(service.embedded().front().engine.tenant, "ann");
}

TEST_F(ServerEmbeddings, the_salt_of_a_key_separates_cached_pages) {
  options.api_keys =
      std::vector<ApiKey>{{.secret = "k", .name = "ann", .cache_salt = "s"}, {.secret = "l"}};
  client().post(kPath, R"({"input":"a"})", "x-api-key: k\r\n");
  client().post(kPath, R"({"input":"a"})", "x-api-key: l\r\n");
  client().post(kPath, R"({"input":"a","cache_salt":"x","priority":-3})", "x-api-key: l\r\n");
  ASSERT_EQ(service.embedded().size(), 3u);
  EXPECT_NE(service.embedded()[0].engine.cache_salt, "");
  EXPECT_EQ(service.embedded()[1].engine.cache_salt, "");
  EXPECT_NE(service.embedded()[2].engine.cache_salt, service.embedded()[0].engine.cache_salt);
  EXPECT_NE(service.embedded()[2].engine.cache_salt, "");
  EXPECT_EQ(service.embedded()[2].engine.ranks, Request::PriorityScope::kOwnTenant);
}

TEST_F(ServerEmbeddings, many_texts_come_back_in_order) {
  std::string input = "[1]";
  for (int i = 2; i <= 300; ++i) {
    input += ",[1";
    for (int j = 1; j < i; ++j) input += ",1";
    input += "]";
  }
  const auto value = json(client().post(kPath, R"({"input":[)" + input + "]}").body);
  const auto& data = value.at("data").as_array();
  ASSERT_EQ(data.size(), 300u);
  for (size_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data[i].at("index"), i);
    EXPECT_EQ(data[i].at("embedding").at(0).to_number<double>(), static_cast<double>(i + 1) / 4);
  }
}

TEST_F(ServerEmbeddings, an_invalid_input_fails_with_its_field) {
  struct Case {
    const char* field;
    const char* param;
  };
  for (const Case& c :
       {Case{R"("x":1)", "input"}, Case{R"("input":null)", "input"}, Case{R"("input":3)", "input"},
        Case{R"("input":"")", "input"}, Case{R"("input":[])", "input"},
        Case{R"("input":[""])", "input"}, Case{R"("input":[[]])", "input"},
        Case{R"("input":[-1])", "input"}, Case{R"("input":[{}])", "input"},
        Case{R"("input":["a",3])", "input"}, Case{R"("input":"a","pooling":"max")", "pooling"},
        Case{R"("input":"a","pooling":3)", "pooling"},
        Case{R"("input":"a","dimensions":-1)", "dimensions"},
        Case{R"("input":"a","dimensions":"x")", "dimensions"},
        Case{R"("input":"a","encoding_format":"int8")", "encoding_format"},
        Case{R"("input":"a","user":3)", "user"}}) {
    const std::string body = std::string("{") + c.field + "}";
    EXPECT_EQ(expect_error(client().post(kPath, body), 400), c.param) << body;
  }
  std::string many = "[1]";
  for (int i = 0; i < 2048; ++i) many += ",[1]";
  EXPECT_EQ(expect_error(client().post(kPath, R"({"input":[)" + many + "]}"), 400), "input");
  expect_alive();
}

TEST_F(ServerEmbeddings, a_rejected_prompt_names_input_as_the_field) {
  service.refuse({ErrorCode::kContextLength, "too long", "prompt"});
  EXPECT_EQ(expect_error(client().post(kPath, R"({"input":"a"})"), 400), "input");
}

TEST_F(ServerEmbeddings, values_that_are_not_finite_are_an_error) {
  const std::string text(FakeService::kNanTokens - 1, 'x');
  const RawResponse response = client().post(kPath, R"({"input":[")" + text + R"(","a"]})");
  expect_error(response, 500);
  EXPECT_NE(response.body.find("not finite numbers"), std::string::npos) << response.body;
}

TEST_F(ServerEmbeddings, a_full_queue_is_429) {
  service.refuse({ErrorCode::kExhausted, "full"});
  const RawResponse response = client().post(kPath, R"({"input":"a"})");
  expect_error(response, 429);
  EXPECT_EQ(response.header("retry-after"), "1");
}

}  // namespace
}  // namespace kvik
