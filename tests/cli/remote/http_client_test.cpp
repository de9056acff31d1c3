#include "cli/remote/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "canned_server.h"
#include "cli/remote/served_models.h"

namespace kvik {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Duration kPatience = std::chrono::seconds(20);

const std::string kHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk_of(const std::string& text) {
  char size[16];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return size + text + "\r\n";
}

TEST(HttpClient, sends_a_request_and_reads_the_answer) {
  CannedServer server({canned(200, "{\"a\": 1}"), canned(404, "gone")});
  const HttpClient client = server.client("secret");
  const auto answer = client.get("/v1/models", kPatience);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 200u);
  EXPECT_EQ(answer->body, "{\"a\": 1}");
  const auto other = client.post("/x", "{}", kPatience);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->status, 404u);
  EXPECT_EQ(other->body, "gone");
  EXPECT_THAT(server.requests()[0], StartsWith("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:"));
  EXPECT_THAT(server.requests()[0], HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(server.requests()[1], HasSubstr("\r\nContent-Length: 2\r\n\r\n{}"));
}

TEST(HttpClient, chunks_may_be_cut_anywhere) {
  const std::string whole = kHead + chunk_of("data: one\n\nda") + chunk_of("ta: two\r\n") +
                            chunk_of(": a comment\n\nevent: x\ndata:three\n\n") + "0\r\n\r\n";
  CannedServer::Answer bytes;
  for (const char c : whole) bytes.emplace_back(1, c);
  CannedServer server({bytes, {whole}});
  for (int i = 0; i < 2; ++i) {
    const auto stream = server.client().open("/v1/completions", "{}");
    ASSERT_TRUE(stream.has_value());
    EXPECT_EQ((*stream)->status().value_or(0), 200u);
    for (const char* text : {"one", "two", "three"}) {
      const auto event = (*stream)->next_event();
      ASSERT_TRUE(event.has_value() && event->has_value()) << text;
      EXPECT_EQ(**event, text);
    }
    const auto end = (*stream)->next_event();
    ASSERT_TRUE(end.has_value());
    EXPECT_FALSE(end->has_value());
  }
}

TEST(HttpClient, connection_that_breaks_is_an_error) {
  CannedServer server({{kHead, chunk_of("data: one\n\n")},
                       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
                       {}});
  const auto stream = server.client().open("/", "{}");
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ((*stream)->next_event().value().value_or(""), "one");
  const auto end = (*stream)->next_event();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kIo);
  for (int i = 0; i < 2; ++i) {
    const auto answer = server.client().get("/", kPatience);
    ASSERT_FALSE(answer.has_value());
    EXPECT_THAT(answer.error().message, HasSubstr("broke"));
  }
}

TEST(HttpClient, what_is_not_http_is_an_error) {
  CannedServer server({{"SSH-2.0-OpenSSH_9.2\r\n\r\n"}});
  const auto answer = server.client().get("/", kPatience);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kCorrupt);
}

TEST(HttpClient, endless_answer_is_an_error) {
  for (const char* const n_bytes : {"10000000000", "18446744073709551615"}) {
    CannedServer server({{fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\nx", n_bytes)}});
    const auto answer = server.client().get("/", kPatience);
    ASSERT_FALSE(answer.has_value());
    EXPECT_THAT(answer.error().message, HasSubstr("body limit"));
  }
}

TEST(HttpClient, silent_server_is_not_waited_for) {
  // The second answer is never sent, because the first connection stays open.
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const HttpClient client({.host = "127.0.0.1", .port = ntohs(address.sin_port)}, "");
  const auto answer = client.get("/", std::chrono::milliseconds(30));
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().message, HasSubstr("does not answer"));
}

TEST(HttpClient, absent_server_is_not_found) {
  uint16_t port = 0;
  {
    const CannedServer server({});
    port = server.client().url().port;
  }
  const HttpClient client({.host = "127.0.0.1", .port = port}, "");
  const auto answer = client.get("/", kPatience);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(answer.error().message, HasSubstr("no server answers at http://127.0.0.1:"));
}

TEST(HttpClient, errors_of_a_server_keep_their_sentence) {
  const Error full =
      error_of({400, R"({"error": {"message": "too long", "code": "context_length_exceeded"}})"});
  EXPECT_EQ(full.code, ErrorCode::kContextLength);
  EXPECT_EQ(full.message, "too long");
  EXPECT_EQ(error_of({503, R"({"status": "loading", "message": "42% loaded"})"}).message,
            "42% loaded");
  EXPECT_EQ(error_of({404, "<html>"}).code, ErrorCode::kNotFound);
  EXPECT_THAT(error_of({502, "<html>"}).message, HasSubstr("502"));
}

TEST(ServedModels, list_has_what_the_server_reports) {
  CannedServer server({canned(200, R"({"object": "list", "data": [
    {"id": "big", "created": 7, "max_model_len": 4096, "display_name": "big", "state": "loading"},
    {"id": "chat", "display_name": "big", "max_model_len": 4096},
    {"id": "style", "display_name": "style", "parent": "big"}, {"object": "no id"}, 3]})"),
                       canned(200, "[]"), canned(401, R"({"error": {"message": "no key"}})")});
  const auto models = list_models(server.client(), kPatience);
  ASSERT_TRUE(models.has_value());
  ASSERT_EQ(models->size(), 3u);
  const ServedModel& big = models->front();
  EXPECT_EQ(big.id, "big");
  EXPECT_EQ(big.state, "loading");
  EXPECT_EQ(big.n_ctx, 4096u);
  EXPECT_EQ(big.created_s, 7u);
  EXPECT_EQ(find_model(*models, "chat")->display_name, "big");
  EXPECT_EQ(find_model(*models, "style")->parent, "big");
  EXPECT_FALSE(find_model(*models, "big ").has_value());
  EXPECT_EQ(list_models(server.client(), kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(list_models(server.client(), kPatience).error().message, "no key");
}

TEST(MetricsText, sums_lines_with_these_labels) {
  const MetricsText page(
      "# HELP kvik_kv_bytes x\nkvik_kv_bytes{model_name=\"a\",state=\"cached\"} 5\n"
      "kvik_kv_bytes{model_name=\"a\",state=\"free\"} 1e3\n"
      "kvik_kv_bytes{model_name=\"b\",state=\"cached\"} 70\nkvik_kv_bytes_more 9\nplain 2\n");
  EXPECT_EQ(page.sum("kvik_kv_bytes", {"model_name=\"a\""}), 1005);
  EXPECT_EQ(page.sum("kvik_kv_bytes", {"state=\"cached\"", "model_name=\"b\""}), 70);
  EXPECT_EQ(page.sum("plain", {}), 2);
  EXPECT_EQ(page.sum("absent", {}), std::nullopt);
  EXPECT_EQ(page.sum("plain", {"model_name=\"a\""}), std::nullopt);
}

}  // namespace
}  // namespace kvik
