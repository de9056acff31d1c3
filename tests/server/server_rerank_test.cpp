#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "server_fixture.h"

namespace kvik {
namespace {

using ServerRerank = ServerFixture;

// The fake service's score of a pair is a quarter of its tokens.
TEST_F(ServerRerank, documents_come_by_descending_score) {
  const RawResponse response = client().post(
      "/v1/rerank", R"({"query":"ab","documents":["a","abcde","abc"],"raw_scores":true})");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body,
            R"({"object":"list","results":[{"index":1,"relevance_score":2E0},)"
            R"({"index":2,"relevance_score":1.5E0},{"index":0,"relevance_score":1E0}],)"
            R"("model":"tiny/model","usage":{"prompt_tokens":18,"total_tokens":18}})");
  ASSERT_EQ(service.embedded().size(), 3u);
  const EmbeddingRequest request = service.embedded().front();
  EXPECT_EQ(request.pooling, Pooling::kRank);
  EXPECT_EQ(request.engine.second_segment, 3u);
}

TEST_F(ServerRerank, scores_are_between_0_and_1_and_documents_come_back_if_wanted) {
  const auto value = json(client()
                              .post("/rerank", R"({"query":"ab","documents":[{"text":"a"},"b"],)"
                                               R"("top_n":1,"return_documents":true})")
                              .body);
  EXPECT_EQ(value.at("results").as_array().size(), 1u);
  EXPECT_NEAR(value.at_pointer("/results/0/relevance_score").as_double(), 1 / (1 + std::exp(-1)),
              1e-6);
  EXPECT_EQ(string_at(value, "/results/0/document/text"), "a");  // of equal ones, the first
}

TEST_F(ServerRerank, texts_get_the_list_of_text_embeddings_inference) {
  const RawResponse response = client().post(
      "/rerank", R"({"query":"a","texts":["bc","defg"],"raw_scores":true,"return_text":true})");
  EXPECT_EQ(response.body, R"([{"index":1,"score":1.5E0,"text":"defg"},)"
                           R"({"index":0,"score":1E0,"text":"bc"}])");
}

TEST_F(ServerRerank, pairs_are_scored_in_their_order) {
  const RawResponse response =
      client().post("/v1/score", R"({"text_1":"a","text_2":["bc","defg"],"raw_scores":true})");
  EXPECT_EQ(response.body, R"({"object":"list","data":[{"index":0,"object":"score","score":1E0},)"
                           R"({"index":1,"object":"score","score":1.5E0}],"model":"tiny/model",)"
                           R"("usage":{"prompt_tokens":10,"total_tokens":10}})");
}

TEST_F(ServerRerank, wrong_fields_are_named) {
  struct Case {
    const char* path;
    const char* body;
    const char* param;
  };
  for (const Case& c :
       {Case{"/v1/rerank", R"({"documents":["a"]})", "query"},
        Case{"/v1/rerank", R"({"query":"a"})", "documents"},
        Case{"/v1/rerank", R"({"query":"a","documents":[]})", "documents"},
        Case{"/v1/rerank", R"({"query":"a","documents":[1]})", "documents"},
        Case{"/v1/rerank", R"({"query":"a","documents":["b"],"top_n":0})", "top_n"},
        Case{"/v1/score", R"({"text_1":["a","b"],"text_2":["c"]})", "text_1"},
        Case{"/v1/score", R"({"text_1":"a"})", "text_2"},
        Case{"/v1/score", R"({"text_1":"a","text_2":"b","truncate_prompt_tokens":0})",
             "truncate_prompt_tokens"}}) {
    const RawResponse response = client().post(c.path, c.body);
    EXPECT_EQ(response.status, 400) << c.body;
    EXPECT_EQ(string_at(json(response.body), "/error/param"), c.param) << response.body;
  }
  for (const char* top_n : {"-1", "0", "1.5"}) {
    const std::string body = fmt::format(R"({{"query":"a","documents":["b"],"top_n":{}}})", top_n);
    const auto refused = json(client().post("/v1/rerank", body).body);
    EXPECT_THAT(string_at(refused, "/error/message"),
                testing::EndsWith(", expected an integer from 1 to 4294967295"));
  }
  EXPECT_TRUE(service.embedded().empty());
}

}  // namespace
}  // namespace kvik
