#include "server/operate/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "server/server_fixture.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

constexpr const char* kTraceParent =
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

// Reads the log after the server has ended, when all its lines are written.
class AccessLogTest : public ServerFixture {
 protected:
  AccessLogTest() { options.access_log = folder.path() + "/access.jsonl"; }

  std::vector<boost::json::value> lines() {
    server.reset();
    std::vector<boost::json::value> values;
    std::ifstream file(options.access_log);
    for (std::string line; std::getline(file, line);) values.push_back(json(line));
    return values;
  }

  TemporaryFolder folder;
};

TEST_F(AccessLogTest, a_completion_is_one_line_with_its_tokens_and_times) {
  options.api_keys = std::vector<ApiKey>{{.secret = "s3cret", .name = "alice"}};
  RawClient c = client();
  c.send_post("/v1/completions?x=1", R"({"prompt":"Hi","stream":true})",
              std::string("x-api-key: s3cret\r\nx-request-id: mine\r\n") + kTraceParent);
  const auto call = service.wait_for_call();
  call->send("a");
  EXPECT_NE(c.read_until("\"a\""), "");
  call->finish();
  call->done();
  EXPECT_NE(c.read_until("[DONE]"), "");
  const auto all = lines();
  ASSERT_EQ(all.size(), 1u);
  const auto& line = all[0].as_object();
  EXPECT_EQ(line.at("request_id"), "mine");
  EXPECT_EQ(line.at("remote"), "127.0.0.1");
  EXPECT_EQ(line.at("method"), "POST");
  EXPECT_EQ(line.at("path"), "/v1/completions");
  EXPECT_EQ(line.at("status"), 200);
  EXPECT_EQ(line.at("key"), "alice");
  EXPECT_EQ(line.at("trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(line.at("parent_span_id"), "00f067aa0ba902b7");
  EXPECT_TRUE(line.at("id").as_string().starts_with("cmpl-"));
  EXPECT_EQ(line.at("prompt_tokens"), 3);
  EXPECT_EQ(line.at("cached_tokens"), 1);
  EXPECT_EQ(line.at("output_tokens"), 2);
  EXPECT_LE(line.at("ttft_ms").to_number<double>(), line.at("ms").to_number<double>());
  EXPECT_EQ(line.at("time").as_string().size(), std::string("2026-11-21T20:00:00.123Z").size());
}

TEST_F(AccessLogTest, numbers_have_no_exponents) {
  AccessRecord record;
  record.status = 200;
  record.ms = 1234.5678;
  record.ttft_ms = 0.00001;
  const std::string line = access_line(record);
  EXPECT_NE(line.find(R"("status":200,"ms":1234.568,)"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("ttft_ms":0.000})"), std::string::npos) << line;
  EXPECT_EQ(json(line).at("ms").to_number<double>(), 1234.568);
}

TEST_F(AccessLogTest, a_refused_request_is_a_line_without_tokens) {
  options.api_keys = std::vector<ApiKey>{{.secret = "s3cret", .name = "alice"}};
  client().post("/v1/completions", "{}", "Authorization: Bearer wrong\r\n");
  const auto all = lines();
  ASSERT_EQ(all.size(), 1u);
  const auto& line = all[0].as_object();
  EXPECT_EQ(line.at("status"), 401);
  for (const char* name : {"key", "id", "prompt_tokens", "ttft_ms", "trace_id"})
    EXPECT_FALSE(line.contains(name)) << name;
}

TEST_F(AccessLogTest, a_path_of_any_bytes_is_one_line_of_json) {
  client().get("/%0A%22%FFx\"");
  const auto all = lines();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("status"), 404);
}

TEST_F(AccessLogTest, appends_to_an_existing_file) {
  client().get("/health");
  EXPECT_EQ(lines().size(), 1u);
  client().get("/health");
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(AccessLogTest, a_file_that_cannot_be_written_is_refused) {
  options.access_log = folder.path();
  const auto started = Server::start(service, options);
  ASSERT_FALSE(started.has_value());
  EXPECT_TRUE(started.error().message.starts_with("cannot write the access log '" + folder.path()))
      << started.error().message;
}

TEST_F(AccessLogTest, without_a_reader_the_oldest_lines_are_dropped) {
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  constexpr uint64_t kLines = 20000;  // more than the queue and a pipe hold
  auto log = AccessLog::open(pipe);
  ASSERT_TRUE(log.has_value());
  for (unsigned i = 0; i < kLines; ++i) {
    AccessRecord record;
    record.request_id = std::to_string(i);
    (*log)->write(record);
  }
  const uint64_t n_left_out = (*log)->lines_left_out();
  EXPECT_GT(n_left_out, 0u);

  std::string all;
  ASSERT_EQ(::fcntl(reader, F_SETFL, 0), 0);
  std::thread drain([&] {
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(reader, bytes, sizeof bytes)) > 0;) all.append(bytes, n);
  });
  log->reset();
  drain.join();
  ::close(reader);
  EXPECT_EQ(std::ranges::count(all, '\n'), static_cast<ptrdiff_t>(kLines - n_left_out));
  EXPECT_NE(all.find(R"("request_id":"19999")"), std::string::npos);
}

TEST_F(AccessLogTest, a_full_disk_does_not_stop_the_server) {
  options.access_log = "/dev/full";
  EXPECT_EQ(client().get("/health").status, 200);
  expect_alive();
}

}  // namespace
}  // namespace kvik
