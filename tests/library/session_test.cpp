#include <gmock/gmock.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "library/opened_model.h"

using testing::HasSubstr;

namespace {

// A folder that is removed at the end of a test.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "/kvik-library-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string generate(kvik_session* session, const char* options) {
  kvik_request* request = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_session_generate(session, options, &request, &error), KVIK_OK) << error.message;
  std::string all;
  for (const std::string& event : events_of(Request(request).get())) all += event;
  return all;
}

Tokens long_tokens(size_t n) {
  Tokens tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<kvik_token>(10 + i * 7919 % 2000));
  return tokens;
}

Session fork(const kvik_session* session) {
  kvik_session* copy = nullptr;
  EXPECT_EQ(kvik_session_fork(session, &copy, nullptr), KVIK_OK);
  return Session(copy);
}

constexpr const char* kEight = R"({"max_tokens": 8, "temperature": 0, "ignore_eos": true})";

}  // namespace

TEST(LibrarySession, generated_tokens_are_appended) {
  const Tokens prompt = tokens_of("ROMEO:");
  const Session session = session_of(prompt);
  generate(session.get(), kEight);
  const Tokens tokens = tokens_of(session.get());
  ASSERT_EQ(tokens.size(), prompt.size() + 8);
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens.begin()));
}

TEST(LibrarySession, streamed_tokens_are_the_same) {
  const Session one = session_of(tokens_of("ROMEO:")), other = session_of(tokens_of("ROMEO:"));
  generate(one.get(), kEight);
  generate(other.get(),
           R"({"max_tokens": 8, "temperature": 0, "ignore_eos": true, "stream": true})");
  EXPECT_EQ(tokens_of(one.get()), tokens_of(other.get()));
}

TEST(LibrarySession, fork_continues_on_its_own) {
  const Session session = session_of(tokens_of("ROMEO:"));
  const Session copy = fork(session.get());
  EXPECT_EQ(tokens_of(session.get()), tokens_of(copy.get()));
  const Tokens before = tokens_of(session.get());
  generate(copy.get(), kEight);
  EXPECT_EQ(tokens_of(session.get()), before);
  generate(session.get(), kEight);
  EXPECT_EQ(tokens_of(session.get()), tokens_of(copy.get()));
}

TEST(LibrarySession, fork_computes_nothing_again) {
  const Model model = open_demo();
  const Tokens tokens = long_tokens(640);
  const Session session = session_of(tokens, model.get());
  // Counters are those after a step: the second call follows the step of the first one.
  for (int i = 0; i < 2; ++i) ASSERT_EQ(kvik_session_prefill(session.get(), nullptr), KVIK_OK);
  const int64_t n_before = number_in(statistics_of(model.get()), "computed_prompt_tokens");
  const Session copy = fork(session.get());
  for (int i = 0; i < 2; ++i) ASSERT_EQ(kvik_session_prefill(copy.get(), nullptr), KVIK_OK);
  const int64_t n_new = number_in(statistics_of(model.get()), "computed_prompt_tokens") - n_before;
  EXPECT_GT(n_before, 600);
  EXPECT_LE(n_new, 3 * 32);  // at most a page in each call
}

TEST(LibrarySession, logits_are_those_of_its_tokens) {
  const Tokens tokens = tokens_of("ROMEO:\nBut soft");
  const Session session = session_of(tokens);
  std::vector<float> logits(kvik_model_vocabulary(demo()));
  ASSERT_EQ(kvik_session_logits(session.get(), logits.data(), logits.size(), nullptr), KVIK_OK);
  EXPECT_EQ(logits, logits_of(tokens));
}

TEST(LibrarySession, truncated_session_forgets_the_rest) {
  const Tokens tokens = long_tokens(20);
  const Session session = session_of(tokens);
  ASSERT_EQ(kvik_session_truncate(session.get(), 5, nullptr), KVIK_OK);
  EXPECT_EQ(tokens_of(session.get()), Tokens(tokens.begin(), tokens.begin() + 5));
  kvik_error error{};
  EXPECT_EQ(kvik_session_truncate(session.get(), 6, &error), KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("has 5 tokens"));
}

TEST(LibrarySession, wrong_input_changes_nothing) {
  const Tokens tokens = long_tokens(20);
  const Session session = session_of(tokens);
  const kvik_token wrong = kvik_model_vocabulary(demo());
  EXPECT_EQ(kvik_session_append(session.get(), &wrong, 1, nullptr), KVIK_INVALID_ARGUMENT);
  const Tokens many(kvik_model_context(demo()), 5);
  EXPECT_EQ(kvik_session_append(session.get(), many.data(), many.size(), nullptr),
            KVIK_CONTEXT_LENGTH);
  kvik_request* request = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_session_generate(session.get(), R"({"prompt": "a"})", &request, &error),
            KVIK_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("prompt"));
  EXPECT_EQ(kvik_session_generate(session.get(), R"({"temperature": -1})", &request, nullptr),
            KVIK_INVALID_ARGUMENT);
  EXPECT_EQ(tokens_of(session.get()), tokens);
}

TEST(LibrarySession, empty_session_generates_nothing) {
  const Session session = session_of({});
  kvik_request* request = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_session_generate(session.get(), nullptr, &request, &error), KVIK_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the session has no tokens");
  EXPECT_EQ(kvik_session_prefill(session.get(), nullptr), KVIK_INVALID_ARGUMENT);
}

TEST(LibrarySession, saved_session_loads_with_its_pages_in_another_model) {
  const Folder folder;
  const std::string options = R"({"threads": 1, "kv_bytes": 67108864, "disk": ")" +
                              folder.file("pages") + R"(", "disk_bytes": 67108864})";
  const Tokens tokens = long_tokens(640);
  const std::string path = folder.file("one.session");
  std::string answer;
  {
    const Model model = open_demo(options);
    const Session session = session_of(tokens, model.get());
    ASSERT_EQ(kvik_session_prefill(session.get(), nullptr), KVIK_OK);
    ASSERT_EQ(kvik_session_save(session.get(), path.c_str(), nullptr), KVIK_OK);
    generate(session.get(), kEight);
    answer = testing::PrintToString(tokens_of(session.get()));
  }
  const Model model = open_demo(options);
  kvik_session* loaded = nullptr;
  kvik_error error{};
  ASSERT_EQ(kvik_session_load(model.get(), path.c_str(), 60, &loaded, &error), KVIK_OK)
      << error.message;
  const Session session(loaded);
  EXPECT_EQ(tokens_of(session.get()), tokens);
  generate(session.get(), kEight);
  EXPECT_EQ(testing::PrintToString(tokens_of(session.get())), answer);
  EXPECT_GE(number_in(statistics_of(model.get()), "hit_tokens"), 600);
}

TEST(LibrarySession, exported_pages_are_found_by_another_model) {
  const Folder folder;
  const auto options = [&](const char* pages) {
    return R"({"threads": 1, "kv_bytes": 67108864, "disk": ")" + folder.file(pages) +
           R"(", "disk_bytes": 67108864})";
  };
  const Tokens tokens = long_tokens(640);
  const std::string path = folder.file("prefix.kvp");
  {
    const Model model = open_demo(options("one"));
    const Session session = session_of(tokens, model.get());
    kvik_error error{};
    ASSERT_EQ(kvik_session_export(session.get(), path.c_str(), &error), KVIK_OK) << error.message;
  }
  const Model model = open_demo(options("other"));
  size_t n_tokens = 0;
  kvik_error error{};
  ASSERT_EQ(kvik_model_import(model.get(), path.c_str(), &n_tokens, &error), KVIK_OK)
      << error.message;
  EXPECT_EQ(n_tokens, 640u);
  EXPECT_EQ(logits_of(tokens, model.get()), logits_of(tokens));
  EXPECT_GE(number_in(statistics_of(model.get()), "hit_tokens"), 600);
  EXPECT_EQ(kvik_model_import(demo(), path.c_str(), nullptr, &error), KVIK_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("'disk'"));
  const Model with_other_type =
      open_demo(R"({"threads": 1, "kv_bytes": 67108864, "kv_type": "f32", "disk": ")" +
                folder.file("f32") + R"("})");
  EXPECT_EQ(kvik_model_import(with_other_type.get(), path.c_str(), nullptr, &error),
            KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("expected those of"));
}

TEST(LibrarySession, session_of_another_model_is_refused) {
  const Folder folder;
  const std::string path = folder.file("one.session");
  const Session session = session_of(tokens_of("ROMEO:"));
  ASSERT_EQ(kvik_session_save(session.get(), path.c_str(), nullptr), KVIK_OK);
  std::string text;
  std::getline(std::ifstream(path), text, '\0');
  const auto error_of = [&](const std::string& content) {
    std::ofstream(path, std::ios::trunc) << content;
    kvik_session* loaded = nullptr;
    kvik_error error{};
    EXPECT_NE(kvik_session_load(demo(), path.c_str(), 0, &loaded, &error), KVIK_OK) << content;
    return error;
  };
  std::string other = text;
  const size_t at = other.find(R"("model":")") + 9;
  other[at] = other[at] == 'a' ? 'b' : 'a';
  EXPECT_EQ(error_of(other).code, KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error_of(other).message, HasSubstr("is a session of the model"));
  EXPECT_EQ(error_of(text.substr(0, text.size() / 2)).code, KVIK_CORRUPT);
  EXPECT_EQ(error_of("{}").code, KVIK_CORRUPT);
  EXPECT_EQ(error_of(std::string(10'000'000, 'x')).code, KVIK_CORRUPT);
  EXPECT_EQ(kvik_session_load(demo(), folder.file("none").c_str(), 0, nullptr, nullptr),
            KVIK_INVALID_ARGUMENT);
}

TEST(LibrarySession, thousand_sessions_leave_no_memory_behind) {
  const Model model = open_demo(R"({"threads": 1, "kv_bytes": 16777216})");
  const Session first = session_of(long_tokens(640), model.get());
  const auto live_through = [&](int n_sessions) {
    for (int i = 0; i < n_sessions; ++i) {
      const Session copy = fork(first.get());
      const auto own = static_cast<kvik_token>(100 + i % 1000);
      EXPECT_EQ(kvik_session_append(copy.get(), &own, 1, nullptr), KVIK_OK);
      EXPECT_EQ(kvik_session_prefill(copy.get(), nullptr), KVIK_OK);
      generate(copy.get(), R"({"max_tokens": 2, "temperature": 0})");
    }
    return ::mallinfo2().uordblks;
  };
  if (const char* const n_sessions = std::getenv("KVIK_TEST_SESSIONS")) {
    live_through(std::atoi(n_sessions));  // for valgrind, which is slow and finds leaks itself
  } else {
    const size_t early = live_through(3000);  // the cache and its record of evicted pages are full
    const size_t late = live_through(1000);
    EXPECT_LT(late, early + (size_t{16} << 10));
  }
  const std::string statistics = statistics_of(model.get());
  EXPECT_EQ(number_in(statistics, "waiting"), 0);
}
