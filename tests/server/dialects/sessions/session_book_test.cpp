#include "server/dialects/sessions/session_book.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/dialects/sessions/session_name.h"

namespace kvik {
namespace {

Usage used(uint32_t prompt, uint32_t cached, uint32_t completion, CacheReport cache = {}) {
  Usage usage;
  usage.prompt_tokens = prompt;
  usage.cached_tokens = cached;
  usage.completion_tokens = completion;
  usage.cache = cache;
  return usage;
}

CacheReport missed(MissReason reason, uint32_t position) {
  CacheReport report;
  report.miss = reason;
  report.position = position;
  return report;
}

CacheReport diverged(uint32_t position) { return missed(MissReason::kDiverged, position); }

ChatRequest chat(std::vector<Message> messages) {
  ChatRequest request;
  request.messages = std::move(messages);
  return request;
}

TEST(SessionBook, adds_the_requests_of_a_session) {
  SessionBook book(1000);
  book.add({"a", "x"}, used(100, 0, 10), 1, "", 5);
  Usage second = used(150, 109, 20);
  second.restored_tokens = 7;
  book.add({"a", "x"}, second, 1, "", 9);
  book.add({"b", "x"}, used(30, 0, 1), 1, "", 10);
  const auto all = book.all();
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].id, "b");
  const SessionSummary& a = all[1];
  EXPECT_EQ(a.id, "a");
  EXPECT_EQ(a.n_requests, 2);
  EXPECT_EQ(a.prompt_tokens, 250);
  EXPECT_EQ(a.reused_tokens, 109);
  EXPECT_EQ(a.restored_tokens, 7);
  EXPECT_EQ(a.generated_tokens, 30);
  EXPECT_EQ(a.lost_tokens, 0);
  EXPECT_EQ(a.first_s, 5);
  EXPECT_EQ(a.last_s, 9);
}

TEST(SessionBook, lost_tokens_were_known_and_are_computed_again) {
  SessionBook book(1000);
  const SessionName name{"a", "x"};
  EXPECT_EQ(book.lost_tokens(name, used(100, 0, 10)), 0) << "the first request";
  book.add(name, used(100, 0, 10), 1, "", 0);  // 109 tokens are known
  EXPECT_EQ(book.lost_tokens(name, used(150, 109, 1)), 0);
  EXPECT_EQ(book.lost_tokens(name, used(150, 60, 1)), 49);
  EXPECT_EQ(book.lost_tokens(name, used(80, 60, 1)), 19) << "a shorter prompt";
  EXPECT_EQ(book.lost_tokens(name, used(80, 79, 1)), 0) << "the last token is always computed";
  EXPECT_EQ(book.lost_tokens({"a", "y"}, used(150, 0, 1)), 0) << "another conversation";
  EXPECT_EQ(book.lost_tokens({"b", "x"}, used(150, 0, 1)), 0) << "another session";
}

TEST(SessionBook, names_what_tokens_were_lost_to) {
  SessionBook book(1000);
  const SessionName name{"a", "x"};
  book.add(name, used(100, 0, 10), 1, "", 0);
  book.add(name, used(150, 20, 10, diverged(20)), 1, "date", 0);                   // 89
  book.add(name, used(200, 150, 10, diverged(150)), 1, "", 0);                     // 9
  book.add(name, used(300, 200, 1, missed(MissReason::kEvicted, 200)), 1, "", 0);  // 9
  const SessionSummary sum = book.all().front();
  EXPECT_EQ(sum.lost_tokens, 107);
  EXPECT_EQ(sum.lost_to, (std::map<std::string, uint64_t, std::less<>>{
                             {"date", 89}, {"diverged", 9}, {"evicted", 9}}));
}

TEST(SessionBook, names_tools_in_another_order) {
  const auto name_of = [](const std::vector<std::string>& tools) {
    ChatRequest request = chat({text_message("user", "Hello")});
    for (const std::string& tool : tools) {
      const Json function{Json::Fields{{"name", Json{tool}}}};
      request.tools.push_back(Json{Json::Fields{{"function", function}}});
    }
    return session_name("a", request);
  };
  SessionBook book(1000);
  book.add(name_of({"read", "write"}), used(100, 0, 1), 1, "", 0);
  book.add(name_of({"write", "read"}), used(120, 20, 1, diverged(20)), 1, "tool", 0);
  EXPECT_EQ(book.all().front().lost_to.begin()->first, "tool_order");
  book.add(name_of({"write", "edit"}), used(140, 30, 1, diverged(30)), 1, "tool", 0);
  EXPECT_EQ(book.all().front().lost_to.count("tool"), 1) << "other tools";
  book.add(name_of({"edit", "write"}), used(160, 10, 1, diverged(10)), 1, "date", 0);
  EXPECT_EQ(book.all().front().lost_to.count("date"), 1) << "before the tools";
}

TEST(SessionBook, names_reasoning_that_is_left_out) {
  SessionBook book(1000);
  const SessionName name{"a", "x"};
  Usage first = used(100, 0, 50);
  first.reasoning_tokens = 30;
  book.add(name, first, 1, "", 0);
  book.add(name, used(180, 98, 1, diverged(98)), 1, "", 0);
  EXPECT_EQ(book.all().front().lost_to.begin()->first, "reasoning");
  book.add(name, used(300, 100, 1, diverged(100)), 1, "", 0);
  EXPECT_EQ(book.all().front().lost_to.count("diverged"), 1) << "the last answer had none";
}

TEST(SessionBook, expects_no_answer_of_several_choices) {
  SessionBook book(1000);
  const SessionName name{"a", "x"};
  book.add(name, used(100, 0, 400), 4, "", 0);
  EXPECT_EQ(book.lost_tokens(name, used(600, 100, 1)), 0);
}

TEST(SessionBook, is_bounded) {
  SessionBook book(1000);
  for (size_t i = 0; i < SessionBook::kSessions + 5; ++i) {
    book.add({std::to_string(i), "x"}, used(10, 0, 1), 1, "", 0);
    book.add({"0", std::to_string(i)}, used(10, 0, 1), 1, "", 0);
  }
  const auto all = book.all();
  ASSERT_EQ(all.size(), SessionBook::kSessions);
  EXPECT_EQ(all[0].id, "0");
  EXPECT_EQ(all[1].id, std::to_string(SessionBook::kSessions + 4));
  const Usage again = used(10, 0, 1);
  EXPECT_GT(book.lost_tokens({"0", std::to_string(SessionBook::kSessions + 4)}, again), 0);
  EXPECT_EQ(book.lost_tokens({"0", "1"}, again), 0) << "dropped";
}

SessionTokens kept_tokens(size_t n, std::string salt = "") {
  return {.salt = std::move(salt), .all = std::vector<TokenId>(n, 7), .prompt_tokens = 1};
}

TEST(SessionBook, tokens_are_found_by_the_salt_of_their_request_only) {
  SessionBook book(100);
  EXPECT_EQ(book.tokens("a", ""), nullptr);
  book.add({"a", "x"}, used(10, 0, 1), 1, "", 1);
  EXPECT_EQ(book.tokens("a", ""), nullptr);
  book.keep({"a", "x"}, kept_tokens(11, "salt"));
  ASSERT_NE(book.tokens("a", "salt"), nullptr);
  EXPECT_EQ(book.tokens("a", "salt")->all.size(), 11);
  EXPECT_EQ(book.tokens("a", ""), nullptr);
  EXPECT_EQ(book.tokens("b", "salt"), nullptr);
  book.keep({"b", "x"}, kept_tokens(11));
  EXPECT_EQ(book.tokens("b", ""), nullptr) << "no such session";
}

TEST(SessionBook, tokens_are_those_of_the_longest_conversation) {
  SessionBook book(100);
  book.add({"a", "x"}, used(20, 0, 1), 1, "", 1);
  book.keep({"a", "x"}, kept_tokens(20));
  book.keep({"a", "title"}, kept_tokens(5));
  EXPECT_EQ(book.tokens("a", "")->all.size(), 20);
  book.keep({"a", "x"}, kept_tokens(15));
  EXPECT_EQ(book.tokens("a", "")->all.size(), 15) << "its conversation was cut";
  book.keep({"a", "other"}, kept_tokens(16));
  EXPECT_EQ(book.tokens("a", "")->all.size(), 16);
}

TEST(SessionBook, tokens_of_the_sessions_used_last_are_kept) {
  SessionBook book(100);
  for (const char* id : {"a", "b", "c"}) {
    book.add({id, "x"}, used(40, 0, 1), 1, "", 1);
    book.keep({id, "x"}, kept_tokens(40));
  }
  EXPECT_EQ(book.tokens("a", ""), nullptr);
  EXPECT_NE(book.tokens("b", ""), nullptr);
  EXPECT_NE(book.tokens("c", ""), nullptr);
  book.keep({"c", "x"}, kept_tokens(101));
  EXPECT_EQ(book.tokens("c", ""), nullptr) << "more than there is room for";
}

TEST(SessionName, is_the_given_id_or_the_conversation) {
  const ChatRequest messages =
      chat({text_message("system", "It is Monday."), text_message("user", "Hello"),
            text_message("assistant", "Hi")});
  const ChatRequest later =
      chat({text_message("system", "It is Tuesday."), text_message("user", "Hello")});
  const SessionName name = session_name("", messages);
  EXPECT_EQ(name.id.size(), 16);
  EXPECT_EQ(name.id, name.conversation);
  EXPECT_EQ(session_name("", later).id, name.id);
  EXPECT_EQ(session_name("mine", later).id, "mine");
  EXPECT_EQ(session_name("mine", later).conversation, name.conversation);
  EXPECT_NE(session_name("", chat({text_message("system", "x"), text_message("user", "Hallo")})).id,
            name.id);
  EXPECT_NE(session_name("", chat({text_message("user", "Hello")})).id, name.id);
  EXPECT_EQ(session_name("", chat({text_message("system", "x")})).id, "");
  const std::string long_id(1000, 'x');
  EXPECT_EQ(session_name(long_id, messages).id.size(), 128);
  EXPECT_NE(session_name(long_id, messages).id, session_name(long_id + "y", messages).id);
}

TEST(SessionName, does_not_depend_on_reminders) {
  const auto of = [](std::string text) {
    return session_name("", chat({text_message("user", std::move(text))})).conversation;
  };
  EXPECT_EQ(of("Mend it."), of("<system-reminder>Today is Monday.</system-reminder>Mend it."));
  EXPECT_EQ(of("Mend it."), of("Mend it.<system-reminder>a</system-reminder><system-reminder>b"));
  EXPECT_NE(of("Mend it."), of("Mend that."));
  std::string many;  // an hour's work, if it took quadratic time
  for (int i = 0; i < 200'000; ++i) many += "<system-reminder></system-reminder>";
  EXPECT_EQ(of("Mend it."), of(many + "Mend it."));
}

TEST(SessionName, messages_that_are_only_reminders_do_not_name_a_conversation) {
  const auto of = [](const std::string& task) {
    return session_name("", chat({text_message("user", "<system-reminder>a</system-reminder>\n"),
                                  text_message("user", task)}));
  };
  EXPECT_EQ(of("Mend it.").id, session_name("", chat({text_message("user", "Mend it.")})).id);
  EXPECT_NE(of("Mend it.").id, of("Mend that.").id);
  EXPECT_NE(of("").id, "");
}

TEST(SessionName, a_header_names_a_session_that_the_body_does_not) {
  const ChatRequest messages = chat({text_message("user", "Hello")});
  const SessionName unnamed = session_name("", messages);
  EXPECT_EQ(with_session_header(unnamed, "ses_1").id, "ses_1");
  EXPECT_EQ(with_session_header(unnamed, "ses_1").conversation, unnamed.conversation);
  EXPECT_EQ(with_session_header(unnamed, std::string(1000, 'x')).id.size(), 128);
  EXPECT_EQ(with_session_header(unnamed, std::nullopt).id, unnamed.id);
  EXPECT_EQ(with_session_header(unnamed, "").id, unnamed.id);
  EXPECT_EQ(with_session_header(session_name("mine", messages), "ses_1").id, "mine");
  EXPECT_EQ(with_session_header({}, "ses_1").id, "");
}

TEST(SessionName, is_found_in_claude_codes_user_id) {
  const std::string uuid = "0a1b2c3d-1111-2222-3333-444455556666";
  EXPECT_EQ(session_of_user_id("user_ff00_account__session_" + uuid), uuid);
  EXPECT_EQ(session_of_user_id(R"({"device_id":"x","session_id":")" + uuid + R"("})"), uuid);
  EXPECT_EQ(session_of_user_id("session_"), "");
  EXPECT_EQ(session_of_user_id("session_0a1b2c3d-1111-2222-3333-44445555666"), "");
  EXPECT_EQ(session_of_user_id(uuid), "");
}

}  // namespace
}  // namespace kvik
