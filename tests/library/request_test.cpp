#include <gmock/gmock.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "library/opened_model.h"

using testing::HasSubstr;

namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kLong =
    R"({"prompt": "ROMEO:", "max_tokens": 900, "ignore_eos": true, "stream": true})";

kvik_error error_of(const std::string& path, const std::string& body, const char* method = "POST") {
  kvik_request* request = nullptr;
  kvik_error error{};
  EXPECT_NE(
      kvik_request_start(demo(), method, path.c_str(), body.data(), body.size(), &request, &error),
      KVIK_OK)
      << path;
  EXPECT_EQ(request, nullptr);
  return error;
}

}  // namespace

// Such answers are written in pieces of 256 KiB.
TEST(LibraryRequest, answer_of_several_pieces_ends) {
  std::string prompt;
  for (int i = 0; i < 120; ++i) prompt += "ROMEO: " + std::to_string(i);
  const Request request =
      start("/v1/completions",
            R"({"prompt": ")" + prompt + R"(", "max_tokens": 1, "prompt_logprobs": 20})");
  const auto events = events_of(request.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(events[0].size(), size_t{300} << 10);
  EXPECT_TRUE(events[0].ends_with("}"));
}

TEST(LibraryRequest, whole_answer_is_one_event) {
  const Request request =
      start(kCompletions, R"({"prompt": "ROMEO:", "max_tokens": 8, "temperature": 0})");
  const auto events = events_of(request.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], HasSubstr(R"("object":"text_completion")"));
  EXPECT_EQ(number_in(events[0], "completion_tokens"), 8);
}

TEST(LibraryRequest, stream_has_an_event_for_each_token) {
  const Request request = start(
      kCompletions,
      R"({"prompt": "ROMEO:", "max_tokens": 8, "temperature": 0, "stream": true, "ignore_eos": true})");
  const auto events = events_of(request.get());
  EXPECT_GE(events.size(), 8u);
  for (const std::string& event : events) EXPECT_TRUE(event.starts_with('{')) << event;
}

TEST(LibraryRequest, chat_answers_by_a_schema) {
  const Request request =
      start("/v1/chat/completions",
            R"({"messages": [{"role": "user", "content": "a number"}], "max_tokens": 40, "seed": 1,
          "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema":
            {"type": "object", "properties": {"n": {"type": "integer", "minimum": 7, "maximum": 7}},
             "required": ["n"], "additionalProperties": false}}}})");
  const auto events = events_of(request.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], HasSubstr(R"({\"n\": 7})"));
}

TEST(LibraryRequest, every_route_of_the_server_works) {
  EXPECT_THAT(events_of(start("/v1/models", "", "GET").get()).at(0), HasSubstr(R"("id":"demo")"));
  EXPECT_THAT(events_of(start("/tokenize", R"({"content": "ROMEO:"})").get()).at(0),
              HasSubstr(R"("tokens":[)"));
  EXPECT_THAT(events_of(start("/metrics", "", "GET").get()).at(0), HasSubstr("kvik_"));
  const auto anthropic = events_of(
      start("/v1/messages",
            R"({"max_tokens": 4, "stream": true, "messages": [{"role": "user", "content": "a"}]})")
          .get());
  ASSERT_GE(anthropic.size(), 3u);
  EXPECT_THAT(anthropic.front(), HasSubstr(R"("type":"message_start")"));
  EXPECT_THAT(anthropic.back(), HasSubstr(R"("type":"message_stop")"));
}

TEST(LibraryRequest, errors_have_a_code_and_name_the_field) {
  EXPECT_EQ(error_of("/v1/none", "{}").code, KVIK_NOT_FOUND);
  EXPECT_EQ(error_of(kCompletions, "{}", "GET").code, KVIK_INVALID_ARGUMENT);
  const kvik_error wrong = error_of(kCompletions, R"({"prompt": "a", "temperature": -1})");
  EXPECT_EQ(wrong.code, KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(wrong.message, HasSubstr("temperature"));
  const std::string words(200000, 'a');
  const kvik_error too_long = error_of(kCompletions, R"({"prompt": ")" + words + "\"}");
  EXPECT_EQ(too_long.code, KVIK_CONTEXT_LENGTH);
  EXPECT_EQ(error_of(kCompletions, R"({"prompt": "a", "model": "other"})").code, KVIK_NOT_FOUND);
  EXPECT_EQ(error_of(kCompletions, "{").code, KVIK_INVALID_ARGUMENT);
}

TEST(LibraryRequest, errors_without_a_place_for_them_are_codes) {
  kvik_request* request = nullptr;
  EXPECT_EQ(kvik_request_start(demo(), "POST", "/v1/none", nullptr, 0, &request, nullptr),
            KVIK_NOT_FOUND);
}

TEST(LibraryRequest, polling_returns_none_until_there_is_an_event) {
  const Request request = start(kCompletions, kLong);
  kvik_event event = KVIK_EVENT_END;
  const char* data = nullptr;
  size_t n = 0, n_events = 0;
  do {
    ASSERT_EQ(kvik_request_next(request.get(), 0, &event, &data, &n, nullptr), KVIK_OK);
    if (event == KVIK_EVENT_NONE) std::this_thread::yield();
    n_events += event == KVIK_EVENT_DATA ? 1 : 0;
  } while (event != KVIK_EVENT_END && n_events < 20);
  EXPECT_EQ(n_events, 20u);
}

TEST(LibraryRequest, wake_callback_is_called_for_new_events) {
  std::atomic<int> n_wakes = 0;
  const Request request = start(kCompletions, kLong);
  const auto count = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
  ASSERT_EQ(kvik_request_set_wake(request.get(), count, &n_wakes, nullptr), KVIK_OK);
  EXPECT_GE(n_wakes, 1);
  kvik_event event = KVIK_EVENT_NONE;
  const char* data = nullptr;
  int seen = 0, n_data = 0;
  while (n_data < 5) {
    ASSERT_EQ(kvik_request_next(request.get(), 0, &event, &data, nullptr, nullptr), KVIK_OK);
    ASSERT_NE(event, KVIK_EVENT_END);
    if (event == KVIK_EVENT_DATA) ++n_data;
    if (event == KVIK_EVENT_NONE) {
      while (n_wakes == seen) std::this_thread::yield();  // a test without wakes times out
      seen = n_wakes;
    }
  }
  ASSERT_EQ(kvik_request_set_wake(request.get(), nullptr, nullptr, nullptr), KVIK_OK);
  const int n_before = n_wakes;
  kvik_request_cancel(request.get());
  EXPECT_EQ(n_wakes, n_before);
}

TEST(LibraryRequest, file_descriptor_becomes_readable_with_an_event) {
  const int fd = ::eventfd(0, EFD_NONBLOCK);
  const Request request = start(kCompletions, R"({"prompt": "ROMEO:", "max_tokens": 4})");
  ASSERT_EQ(kvik_request_set_wake(request.get(), kvik_wake_fd,
                                  reinterpret_cast<void*>(static_cast<intptr_t>(fd)), nullptr),
            KVIK_OK);
  kvik_event event = KVIK_EVENT_NONE;
  const char* data = nullptr;
  while (event == KVIK_EVENT_NONE) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 60'000), 1);
    uint64_t n_wakes = 0;
    ASSERT_EQ(::read(fd, &n_wakes, sizeof n_wakes), static_cast<ssize_t>(sizeof n_wakes));
    ASSERT_EQ(kvik_request_next(request.get(), 0, &event, &data, nullptr, nullptr), KVIK_OK);
  }
  EXPECT_EQ(event, KVIK_EVENT_DATA);
  ASSERT_EQ(kvik_request_set_wake(request.get(), nullptr, nullptr, nullptr), KVIK_OK);
  ::close(fd);
}

TEST(LibraryRequest, callback_cancels_with_its_result) {
  const Request request = start(kCompletions, kLong);
  int n_events = 0;
  const auto stop_at_three = [](const char*, size_t, void* user) {
    return ++*static_cast<int*>(user) == 3 ? 1 : 0;
  };
  EXPECT_EQ(kvik_request_run(request.get(), stop_at_three, &n_events, nullptr), KVIK_OK);
  EXPECT_EQ(n_events, 3);
}

TEST(LibraryRequest, another_thread_cancels_a_waiting_one) {
  const Request request = start(kCompletions, kLong);
  std::thread other([&] { kvik_request_cancel(request.get()); });
  events_of(request.get());
  other.join();
  kvik_event event = KVIK_EVENT_DATA;
  const char* data = nullptr;
  ASSERT_EQ(kvik_request_next(request.get(), -1, &event, &data, nullptr, nullptr), KVIK_OK);
  EXPECT_EQ(event, KVIK_EVENT_END);
  EXPECT_EQ(data, nullptr);
}

TEST(LibraryRequest, freed_request_leaves_the_engine) {
  for (int i = 0; i < 20; ++i) start(kCompletions, kLong).reset();
  const auto begin = std::chrono::steady_clock::now();
  while (number_in(statistics_of(demo()), "running") > 0) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    std::this_thread::yield();
  }
}

TEST(LibraryRequest, requests_of_many_threads_run_in_one_batch) {
  const std::string body =
      R"({"prompt": "ROMEO:", "max_tokens": 50, "temperature": 0, "ignore_eos": true})";
  const auto text_of = [](const std::string& answer) {
    const size_t at = answer.find(R"("text":)");
    return answer.substr(at, answer.find(R"("finish_reason")") - at);
  };
  const std::string alone = text_of(events_of(start(kCompletions, body).get()).at(0));
  std::vector<std::string> answers(8);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) {
    threads.emplace_back([&] { answer = events_of(start(kCompletions, body).get()).at(0); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) EXPECT_EQ(text_of(answer), alone);
}
