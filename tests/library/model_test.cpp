#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "library/opened_model.h"

using testing::HasSubstr;
using testing::Not;

TEST(LibraryModel, version_is_that_of_the_header) {
  EXPECT_EQ(kvik_version_number(), KVIK_VERSION);
  const std::string header = std::to_string(KVIK_VERSION_MAJOR) + "." +
                             std::to_string(KVIK_VERSION_MINOR) + "." +
                             std::to_string(KVIK_VERSION_PATCH);
  EXPECT_EQ(kvik_version(), header);
}

TEST(LibraryModel, missing_file_is_an_error_with_its_name) {
  kvik_model* model = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_model_open("/no/such.gguf", nullptr, nullptr, nullptr, &model, &error),
            KVIK_NOT_FOUND);
  EXPECT_EQ(error.code, KVIK_NOT_FOUND);
  EXPECT_THAT(error.message, HasSubstr("/no/such.gguf"));
  EXPECT_EQ(model, nullptr);
}

TEST(LibraryModel, options_that_do_not_exist_are_errors_with_a_hint) {
  const auto message_of = [](const char* options) {
    kvik_model* model = nullptr;
    kvik_error error{};
    EXPECT_EQ(kvik_model_open("demo", options, nullptr, nullptr, &model, &error),
              KVIK_INVALID_ARGUMENT)
        << options;
    return std::string(error.message);
  };
  EXPECT_THAT(message_of(R"({"thread": 2})"), HasSubstr("did you mean threads?"));
  EXPECT_THAT(message_of(R"({"kv_type": "int3"})"), HasSubstr("kv_type is 'int3', expected"));
  EXPECT_THAT(message_of(R"({"ctx": "8k"})"), HasSubstr("ctx"));
  EXPECT_THAT(message_of(R"({"ctx": 0})"), HasSubstr("ctx is '0'"));
  EXPECT_THAT(message_of(R"({"device": "tpu"})"), HasSubstr("tpu"));
  EXPECT_THAT(message_of(R"({"chat_template": "{% if %}"})"), HasSubstr("chat_template: "));
  EXPECT_THAT(message_of(R"({"tool_format": "hermez"})"),
              HasSubstr("tool_format is 'hermez', expected none, "));
  EXPECT_THAT(message_of(R"({"adapters": {"a=b": "c.gguf"}})"),
              HasSubstr("'a=b', expected no '='"));
  EXPECT_EQ(message_of("[1]"), "the options are an array, expected a JSON object");
  EXPECT_THAT(message_of("{"), HasSubstr("the options are not valid JSON"));
}

// The layers below name the program's flags.
TEST(LibraryModel, messages_name_options_of_the_library) {
  kvik_model* model = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_model_open("demo", R"({"kv_bytes": 1152921504606846976})", nullptr, nullptr,
                            &model, &error),
            KVIK_EXHAUSTED);
  EXPECT_THAT(error.message, HasSubstr("give less kv_bytes or a smaller model, or overcommit"));
  EXPECT_THAT(error.message, Not(HasSubstr("--")));
}

TEST(LibraryModel, null_pointers_are_errors_that_name_them) {
  kvik_error error{};
  kvik_model* model = nullptr;
  EXPECT_EQ(kvik_model_open(nullptr, nullptr, nullptr, nullptr, &model, &error),
            KVIK_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "path is NULL");
  EXPECT_EQ(kvik_model_info(nullptr, nullptr, nullptr), KVIK_INVALID_ARGUMENT);
  EXPECT_EQ(kvik_request_next(nullptr, 0, nullptr, nullptr, nullptr, &error),
            KVIK_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "request is NULL");
  kvik_model_close(nullptr);
  kvik_request_free(nullptr);
  kvik_request_cancel(nullptr);
  kvik_session_free(nullptr);
  kvik_free(nullptr);
}

TEST(LibraryModel, progress_reaches_the_end) {
  struct Seen {
    uint64_t n_done = 0, n_all = 0;
  } seen;
  const auto note = [](uint64_t n_done, uint64_t n_all, void* user) {
    *static_cast<Seen*>(user) = {n_done, n_all};
  };
  kvik_model* model = nullptr;
  ASSERT_EQ(kvik_model_open("demo", R"({"threads": 1, "kv_bytes": 16777216})", note, &seen, &model,
                            nullptr),
            KVIK_OK);
  kvik_model_close(model);
  EXPECT_GT(seen.n_all, 0u);
  EXPECT_EQ(seen.n_done, seen.n_all);
}

TEST(LibraryModel, info_has_the_sizes_that_the_functions_return) {
  char* json = nullptr;
  ASSERT_EQ(kvik_model_info(demo(), &json, nullptr), KVIK_OK);
  EXPECT_EQ(number_in(json, "n_vocab"), kvik_model_vocabulary(demo()));
  EXPECT_EQ(number_in(json, "n_ctx"), kvik_model_context(demo()));
  EXPECT_EQ(number_in(json, "model_dim"), kvik_model_dimension(demo()));
  EXPECT_THAT(json, HasSubstr(R"("id":"demo")"));
  kvik_free(json);
}

TEST(LibraryModel, text_survives_tokens) {
  const std::string text = "ROMEO:\nBut soft, what light – ü 文 \U0001F98A";
  const Tokens tokens = tokens_of(text, 0);
  char* back = nullptr;
  size_t n = 0;
  ASSERT_EQ(kvik_detokenize(demo(), tokens.data(), tokens.size(), &back, &n, nullptr), KVIK_OK);
  EXPECT_EQ(std::string(back, n), text);
  EXPECT_EQ(back[n], '\0');
  kvik_free(back);
}

TEST(LibraryModel, empty_text_has_no_tokens) { EXPECT_TRUE(tokens_of("", 0).empty()); }

TEST(LibraryModel, token_outside_the_vocabulary_is_an_error) {
  const kvik_token wrong = kvik_model_vocabulary(demo());
  char* text = nullptr;
  kvik_error error{};
  EXPECT_EQ(kvik_detokenize(demo(), &wrong, 1, &text, nullptr, &error), KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr(std::to_string(wrong)));
}

// The caller's array is not read, and no size wraps around.
TEST(LibraryModel, more_tokens_than_the_context_are_an_error) {
  const kvik_token token = 1;
  float number = 0;
  kvik_error error{};
  for (const size_t n : {size_t{kvik_model_context(demo())} + 1, size_t{1} << 53, SIZE_MAX}) {
    EXPECT_EQ(kvik_logits(demo(), &token, n, &number, 1, &error), KVIK_CONTEXT_LENGTH);
    EXPECT_EQ(kvik_all_logits(demo(), &token, n, &number, 0, &error), KVIK_CONTEXT_LENGTH);
    EXPECT_EQ(kvik_score(demo(), &token, n, &number, n, &error), KVIK_CONTEXT_LENGTH);
    EXPECT_EQ(kvik_embed(demo(), &token, n, KVIK_POOLING_MEAN, &number, 1, &error),
              KVIK_CONTEXT_LENGTH);
    const Session session = session_of({1, 2});
    EXPECT_EQ(kvik_session_append(session.get(), &token, n, &error), KVIK_CONTEXT_LENGTH);
    EXPECT_THAT(error.message, HasSubstr(std::to_string(n)));
    EXPECT_EQ(tokens_of(session.get()), (Tokens{1, 2}));
  }
}

TEST(LibraryModel, last_logits_are_the_last_row_of_all_logits) {
  const Tokens tokens = tokens_of("ROMEO:\nBut soft");
  const size_t n_vocab = kvik_model_vocabulary(demo());
  std::vector<float> all(tokens.size() * n_vocab);
  ASSERT_EQ(kvik_all_logits(demo(), tokens.data(), tokens.size(), all.data(), all.size(), nullptr),
            KVIK_OK);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row = logits_of(Tokens(tokens.begin(), tokens.begin() + i + 1));
    EXPECT_EQ(std::memcmp(row.data(), &all[i * n_vocab], n_vocab * sizeof(float)), 0) << i;
  }
}

TEST(LibraryModel, scores_are_log_probabilities_by_the_logits) {
  const Tokens tokens = tokens_of("ROMEO:\nBut soft");
  std::vector<float> scores(tokens.size());
  ASSERT_EQ(kvik_score(demo(), tokens.data(), tokens.size(), scores.data(), scores.size(), nullptr),
            KVIK_OK);
  EXPECT_EQ(scores[0], 0.0f);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const std::vector<float> logits = logits_of(Tokens(tokens.begin(), tokens.begin() + i));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(scores[i], logits[tokens[i]] - std::log(sum), 1e-4) << i;
  }
}

TEST(LibraryModel, scores_after_a_context_are_the_same_bits_and_use_the_cache) {
  const Model model = open_demo();
  Tokens tokens;
  for (kvik_token i = 0; i < 200; ++i) tokens.push_back(5 + 7 * i % 1000);
  std::vector<float> all(tokens.size());
  ASSERT_EQ(kvik_score(model.get(), tokens.data(), tokens.size(), all.data(), all.size(), nullptr),
            KVIK_OK);
  for (const size_t n_context : {1, 7, 150, 199}) {
    std::vector<float> scores(tokens.size() - n_context);
    Tokens likeliest(scores.size());
    ASSERT_EQ(kvik_score_after(model.get(), tokens.data(), tokens.size(), n_context, scores.data(),
                               likeliest.data(), nullptr),
              KVIK_OK);
    EXPECT_EQ(std::memcmp(scores.data(), &all[n_context], scores.size() * sizeof(float)), 0)
        << n_context;
    for (size_t i = 0; i < likeliest.size(); i += 30) {
      const std::vector<float> row =
          logits_of(Tokens(tokens.begin(), tokens.begin() + n_context + i), model.get());
      EXPECT_EQ(likeliest[i], std::ranges::max_element(row) - row.begin()) << i;
    }
  }
  const std::string before = statistics_of(model.get());
  float score = 0;
  ASSERT_EQ(
      kvik_score_after(model.get(), tokens.data(), tokens.size(), 199, &score, nullptr, nullptr),
      KVIK_OK);
  static_cast<void>(logits_of({1}, model.get()));  // the step before is counted then
  const auto grown = [&](const char* name) {
    return number_in(statistics_of(model.get()), name) - number_in(before, name);
  };
  EXPECT_GE(grown("cached_prompt_tokens"), 150);
}

TEST(LibraryModel, scores_after_no_context_or_all_tokens_are_an_error) {
  const Tokens tokens = {1, 2, 3};
  float score = 0;
  kvik_error error{};
  for (const size_t n_context : {0, 3, 4}) {
    EXPECT_EQ(
        kvik_score_after(demo(), tokens.data(), tokens.size(), n_context, &score, nullptr, &error),
        KVIK_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("n_context is " + std::to_string(n_context)));
  }
  const Tokens unknown = {1, 1U << 30};
  EXPECT_EQ(kvik_score_after(demo(), unknown.data(), 2, 1, &score, nullptr, &error),
            KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr(std::to_string(1U << 30)));
}

// The last token is only looked up.
TEST(LibraryModel, scores_take_one_token_more_than_the_context) {
  const Model model = open_demo(R"({"threads": 1, "kv_bytes": 67108864, "ctx": 64})");
  const Tokens tokens(66, 5);
  std::vector<float> scores(2);
  EXPECT_EQ(kvik_score_after(model.get(), tokens.data(), 65, 64, scores.data(), nullptr, nullptr),
            KVIK_OK);
  EXPECT_LT(scores[0], 0.0f);
  EXPECT_EQ(kvik_score_after(model.get(), tokens.data(), 66, 64, scores.data(), nullptr, nullptr),
            KVIK_CONTEXT_LENGTH);
}

TEST(LibraryModel, too_small_an_array_is_an_error) {
  const Tokens tokens = tokens_of("ROMEO:");
  std::vector<float> logits(3);
  kvik_error error{};
  EXPECT_EQ(kvik_logits(demo(), tokens.data(), tokens.size(), logits.data(), 3, &error),
            KVIK_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("room for 3 floats"));
}

TEST(LibraryModel, too_many_tokens_are_a_context_length_error) {
  const Tokens tokens(kvik_model_context(demo()) + 1, 5);
  std::vector<float> logits(kvik_model_vocabulary(demo()));
  EXPECT_EQ(
      kvik_logits(demo(), tokens.data(), tokens.size(), logits.data(), logits.size(), nullptr),
      KVIK_CONTEXT_LENGTH);
}

TEST(LibraryModel, embeddings_have_length_one) {
  const Tokens tokens = tokens_of("ROMEO:");
  std::vector<float> mean(kvik_model_dimension(demo())), last(mean.size());
  ASSERT_EQ(kvik_embed(demo(), tokens.data(), tokens.size(), KVIK_POOLING_MEAN, mean.data(),
                       mean.size(), nullptr),
            KVIK_OK);
  ASSERT_EQ(kvik_embed(demo(), tokens.data(), tokens.size(), KVIK_POOLING_LAST, last.data(),
                       last.size(), nullptr),
            KVIK_OK);
  double squares = 0;
  for (const float value : mean) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_NE(mean, last);
}

TEST(LibraryModel, log_messages_go_to_the_callback_alone) {
  std::string messages;
  const auto add = [](int, const char* message, void* user) {
    *static_cast<std::string*>(user) += std::string(message) + "\n";
  };
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  kvik_set_log(KVIK_LOG_INFO, add, &messages);
  open_demo(R"({"threads": 1, "ctx": 1000000, "kv_type": "int4", "overcommit": true})");
  kvik_set_log(KVIK_LOG_INFO, nullptr, nullptr);
  open_demo();
  EXPECT_THAT(messages, HasSubstr("a context of 1000000 tokens exceeds"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LibraryModel, closing_a_model_keeps_it_for_its_requests) {
  Model model = open_demo();
  const Request request =
      start("/v1/completions", R"({"prompt": "ROMEO:", "max_tokens": 5})", "POST", model.get());
  model.reset();
  EXPECT_EQ(events_of(request.get()).size(), 1u);
}
