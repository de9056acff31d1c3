#include "server/completion_mailbox.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

CompletionChunk text_of(size_t n_bytes) {
  CompletionChunk chunk;
  chunk.text = std::string(n_bytes, 'a');
  return chunk;
}

TEST(CompletionMailbox, news_come_out_in_order_and_once) {
  CompletionMailbox mailbox(1, std::nullopt);
  mailbox.add(text_of(1));
  mailbox.add(text_of(2));
  const auto mail = mailbox.take();
  ASSERT_EQ(mail.chunks.size(), 2u);
  EXPECT_EQ(mail.chunks[1].text, "aa");
  EXPECT_FALSE(mail.usage);
  EXPECT_TRUE(mailbox.take().chunks.empty());
}

TEST(CompletionMailbox, the_usage_comes_when_all_completions_are_done_and_is_their_sum) {
  CompletionMailbox mailbox(2, std::nullopt);
  Usage usage;
  usage.prompt_tokens = 3;
  usage.cached_tokens = 2;
  usage.completion_tokens = 1;
  mailbox.add_usage(usage);
  EXPECT_FALSE(mailbox.take().usage);
  mailbox.add_usage(usage);
  const auto mail = mailbox.take();
  ASSERT_TRUE(mail.usage);
  EXPECT_EQ(mail.usage->prompt_tokens, 6u);
  EXPECT_EQ(mail.usage->cached_tokens, 4u);
  EXPECT_EQ(mail.usage->completion_tokens, 2u);
}

TEST(CompletionMailbox, one_wake_serves_all_news_until_they_are_taken) {
  CompletionMailbox mailbox(1, std::nullopt);
  int n_wakes = 0;
  mailbox.set_wake([&] { ++n_wakes; });
  mailbox.add(text_of(1));
  mailbox.add(text_of(1));
  EXPECT_EQ(n_wakes, 1);
  mailbox.take();
  mailbox.add(text_of(1));
  EXPECT_EQ(n_wakes, 2);
}

TEST(CompletionMailbox, news_from_before_the_wake_was_set_wake_at_once) {
  CompletionMailbox mailbox(1, std::nullopt);
  mailbox.add(text_of(1));
  int n_wakes = 0;
  mailbox.set_wake([&] { ++n_wakes; });
  EXPECT_EQ(n_wakes, 1);
}

TEST(CompletionMailbox, past_its_limit_it_overflows_and_wakes_again) {
  CompletionMailbox mailbox(1, 10'000);
  int n_wakes = 0;
  mailbox.set_wake([&] { ++n_wakes; });
  mailbox.add(text_of(1'000'000));  // an echoed prompt
  mailbox.add(text_of(9'000));
  EXPECT_FALSE(mailbox.has_overflowed());
  mailbox.add(text_of(1'000));
  EXPECT_TRUE(mailbox.has_overflowed());
  EXPECT_EQ(n_wakes, 2);
  EXPECT_TRUE(mailbox.take().chunks.empty());
}

TEST(CompletionMailbox, what_is_taken_in_time_never_overflows) {
  CompletionMailbox mailbox(1, 10'000);
  for (int i = 0; i < 100; ++i) {
    mailbox.add(text_of(8'000));
    mailbox.add(text_of(8'000));
    EXPECT_EQ(mailbox.take().chunks.size(), 2u);
  }
  EXPECT_FALSE(mailbox.has_overflowed());
}

TEST(CompletionMailbox, nothing_wakes_after_it_is_closed) {
  auto mailbox = std::make_shared<CompletionMailbox>(1, std::nullopt);
  MailboxSink sink(mailbox, 4);
  int n_wakes = 0;
  mailbox->set_wake([&] { ++n_wakes; });
  mailbox->close();
  sink.on_chunk(text_of(1));
  sink.on_done({});
  EXPECT_EQ(n_wakes, 0);
  EXPECT_TRUE(mailbox->take().chunks.empty());
}

TEST(CompletionMailbox, a_sink_numbers_its_choices_from_its_first) {
  auto mailbox = std::make_shared<CompletionMailbox>(1, std::nullopt);
  MailboxSink sink(mailbox, 4);
  CompletionChunk chunk = text_of(1);
  chunk.choice = 1;
  sink.on_chunk(chunk);
  EXPECT_EQ(mailbox->take().chunks.at(0).choice, 5u);
}

}  // namespace
}  // namespace kvik
