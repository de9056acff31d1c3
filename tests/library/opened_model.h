#pragma once

#include <gtest/gtest.h>
#include <kvik/kvik.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Helpers of the tests of kvik.h, which use nothing else of the library.

struct Closer {
  void operator()(kvik_model* model) const { kvik_model_close(model); }
  void operator()(kvik_request* request) const { kvik_request_free(request); }
  void operator()(kvik_session* session) const { kvik_session_free(session); }
};
using Model = std::unique_ptr<kvik_model, Closer>;
using Request = std::unique_ptr<kvik_request, Closer>;
using Session = std::unique_ptr<kvik_session, Closer>;
using Tokens = std::vector<kvik_token>;

inline Model open_demo(const std::string& options = R"({"threads": 1, "kv_bytes": 67108864})") {
  kvik_model* model = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_model_open("demo", options.c_str(), nullptr, nullptr, &model, &error), KVIK_OK)
      << error.message;
  return Model(model);
}

// Returns a model that all tests share which do not need one of their own.
inline kvik_model* demo() {
  static const Model model = open_demo();
  return model.get();
}

inline Tokens tokens_of(std::string_view text, unsigned flags = KVIK_ADD_SPECIAL) {
  kvik_token* ids = nullptr;
  size_t n = 0;
  EXPECT_EQ(kvik_tokenize(demo(), text.data(), text.size(), flags, &ids, &n, nullptr), KVIK_OK);
  Tokens tokens(ids, ids + n);
  kvik_free(ids);
  return tokens;
}

inline Request start(const std::string& path, const std::string& body, const char* method = "POST",
                     kvik_model* model = demo()) {
  kvik_request* request = nullptr;
  kvik_error error{};
  EXPECT_EQ(
      kvik_request_start(model, method, path.c_str(), body.data(), body.size(), &request, &error),
      KVIK_OK)
      << error.message;
  return Request(request);
}

// Returns the events until the end.
inline std::vector<std::string> events_of(kvik_request* request) {
  std::vector<std::string> events;
  kvik_error error{};
  const auto add = [](const char* data, size_t n, void* user) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(data, n);
    return 0;
  };
  EXPECT_EQ(kvik_request_run(request, add, &events, &error), KVIK_OK) << error.message;
  return events;
}

inline Session session_of(const Tokens& tokens, kvik_model* model = demo(), uint32_t keep_s = 0) {
  kvik_session* session = nullptr;
  EXPECT_EQ(kvik_session_create(model, keep_s, &session, nullptr), KVIK_OK);
  EXPECT_EQ(kvik_session_append(session, tokens.data(), tokens.size(), nullptr), KVIK_OK);
  return Session(session);
}

inline Tokens tokens_of(const kvik_session* session) {
  size_t n = 0;
  const kvik_token* tokens = kvik_session_tokens(session, &n);
  return {tokens, tokens + n};
}

inline std::vector<float> logits_of(const Tokens& tokens, kvik_model* model = demo()) {
  std::vector<float> logits(kvik_model_vocabulary(model));
  kvik_error error{};
  EXPECT_EQ(kvik_logits(model, tokens.data(), tokens.size(), logits.data(), logits.size(), &error),
            KVIK_OK)
      << error.message;
  return logits;
}

// Returns the number after "NAME": in JSON; -1 if there is none.
inline int64_t number_in(std::string_view json, const std::string& name) {
  const size_t at = json.find("\"" + name + "\":");
  return at == std::string_view::npos
             ? -1
             : std::stoll(std::string(json.substr(at + name.size() + 3, 20)));
}

inline std::string statistics_of(kvik_model* model) {
  char* json = nullptr;
  EXPECT_EQ(kvik_model_statistics(model, &json, nullptr), KVIK_OK);
  std::string text = json;
  kvik_free(json);
  return text;
}
