#include <gtest/gtest.h>

#include <future>

#include "server_fixture.h"

namespace kvik {
namespace {

using ServerRobustness = ServerFixture;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kPath = "/v1/completions";
constexpr const char* kStream = R"({"prompt":"Hi","stream":true})";

TEST_F(ServerRobustness, a_streaming_client_that_goes_away_cancels_its_completion) {
  RawClient c = client();
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  call->send("a");
  EXPECT_NE(c.read_until("\"a\""), "");
  c.close();
  EXPECT_TRUE(call->wait_cancelled());
  call->send("late");  // the engine may not have noticed the cancellation yet
  call->finish(FinishReason::kCancelled);
  call->done();
  expect_alive();
}

TEST_F(ServerRobustness, a_waiting_client_that_goes_away_cancels_its_completion) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi"})");
  const auto call = service.wait_for_call();
  c.close();
  EXPECT_TRUE(call->wait_cancelled());
  expect_alive();
}

TEST_F(ServerRobustness, disconnect_after_a_pipelined_request_is_noticed) {
  RawClient c = client();
  c.send_post(kPath, R"({"prompt":"Hi"})");
  c.send("GET /health HTTP/1.1\r\n");
  const auto call = service.wait_for_call();
  c.close();
  EXPECT_TRUE(call->wait_cancelled());
}

TEST_F(ServerRobustness, a_slow_reader_is_canceled_and_another_stream_continues) {
  options.stream_buffer_bytes = 16 << 10;
  options.socket_send_buffer_bytes = 4096;
  RawClient slow = client(4096);
  slow.send_post(kPath, kStream);
  const auto slow_call = service.wait_for_call(0);
  RawClient quick = client();
  quick.send_post(kPath, kStream);
  const auto quick_call = service.wait_for_call(1);
  const std::string text(1024, 'a');
  for (int i = 0; i < 10'000 && !slow_call->is_cancelled(); ++i) {
    slow_call->send(text);
    quick_call->send("tick");
    ASSERT_NE(quick.read_until("\"tick\""), "");
  }
  EXPECT_TRUE(slow_call->wait_cancelled());
  EXPECT_FALSE(quick_call->is_cancelled());
  quick_call->finish();
  quick_call->done();
  EXPECT_NE(quick.read_until("[DONE]"), "");
}

TEST_F(ServerRobustness, a_reader_that_takes_nothing_is_cancelled_after_the_write_timeout) {
  options.write_timeout = milliseconds(50);
  options.socket_send_buffer_bytes = 4096;
  RawClient c = client(4096);
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  call->send(std::string(4 << 20, 'a'));  // a single chunk may exceed the limit of the mailbox
  EXPECT_TRUE(call->wait_cancelled());
}

TEST_F(ServerRobustness, one_large_piece_reaches_a_reader_whole) {
  RawClient c = client();
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  const std::string text(4 << 20, 'a');
  call->send(text);
  call->finish();
  call->done();
  const auto events = c.read_response().events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(string_at(json(events[0]), "/choices/0/text"), text);
}

TEST_F(ServerRobustness, a_hundred_clients_stream_at_once) {
  service.answer_with([](FakeCall& call) {
    for (int i = 0; i < 20; ++i) call.send(std::get<std::string>(call.request.prompt));
    call.finish();
    call.done();
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(client());
    clients.back().send_post(kPath, R"({"stream":true,"prompt":"p)" + std::to_string(i) + "\"}");
  }
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    const auto events = clients[static_cast<size_t>(i)].read_response().events();
    ASSERT_EQ(events.size(), 22u);
    for (size_t piece = 0; piece < 20; ++piece)
      EXPECT_EQ(string_at(json(events[piece]), "/choices/0/text"), "p" + number);
    EXPECT_EQ(events.back(), "[DONE]");
  }
}

TEST_F(ServerRobustness, a_thousand_clients_that_go_away_leave_nothing_running) {
  start();
  for (size_t i = 0; i < 1000; ++i) {
    RawClient c = client();
    c.send_post(kPath, i % 2 == 0 ? kStream : R"({"prompt":"Hi"})");
    if (i % 3 != 0) service.wait_for_call(i);
  }
  for (size_t i = 0; i < 1000; ++i) EXPECT_TRUE(service.wait_for_call(i)->wait_cancelled());
  expect_alive();
}

TEST_F(ServerRobustness, a_draining_server_finishes_running_requests_only) {
  RawClient c = client();
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  server->stop_accepting();
  expect_error(client().get("/readyz"), 503);
  EXPECT_EQ(client().get("/livez").status, 200);
  expect_error(client().post(kPath, kStream), 503);
  const auto stopped =
      std::async(std::launch::async, [this] { server->stop(std::chrono::hours(1)); });
  call->send("a");
  EXPECT_NE(c.read_until("\"a\""), "");
  call->finish();
  call->done();
  EXPECT_NE(c.read_until("[DONE]"), "");
  stopped.wait();
}

TEST_F(ServerRobustness, stopping_cuts_streams_off_with_an_error_event_and_others_with_503) {
  RawClient streaming = client();
  streaming.send_post(kPath, kStream);
  RawClient waiting = client();
  const auto first = service.wait_for_call(0);
  waiting.send_post(kPath, R"({"prompt":"Hi"})");
  const auto second = service.wait_for_call(1);
  RawClient idle = client();
  EXPECT_EQ(idle.get("/health").status, 200);
  const auto stopped =
      std::async(std::launch::async, [this] { server->stop(std::chrono::milliseconds(10)); });
  const auto events = streaming.read_response().events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(string_at(json(events[0]), "/error/code"), "shutting_down");
  EXPECT_EQ(events[1], "[DONE]");
  expect_error(waiting.read_response(), 503);
  streaming.close();
  waiting.close();
  EXPECT_EQ(idle.read_to_end(), "");
  stopped.wait();
  EXPECT_TRUE(first->is_cancelled());
  EXPECT_TRUE(second->is_cancelled());
}

TEST_F(ServerRobustness, a_completion_that_the_engine_cuts_off_is_an_error_event) {
  RawClient c = client();
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  call->finish(FinishReason::kCancelled);
  call->done();
  EXPECT_EQ(string_at(json(c.read_response().events().at(0)), "/error/code"), "shutting_down");
}

TEST_F(ServerRobustness, a_server_destroyed_while_streams_run_cancels_them) {
  options.abort_grace = milliseconds(20);
  RawClient c = client();
  c.send_post(kPath, kStream);
  const auto call = service.wait_for_call();
  server.reset();
  EXPECT_TRUE(call->is_cancelled());
  call->send("after the end");  // the sink outlives the server
  call->done();
}

}  // namespace
}  // namespace kvik
