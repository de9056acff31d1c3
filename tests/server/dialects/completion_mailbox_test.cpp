#include "server/dialects/completion_mailbox.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

CompletionChunk chunk_of(std::string text, uint32_t choice = 0) {
  CompletionChunk chunk;
  chunk.text = std::move(text);
  chunk.choice = choice;
  return chunk;
}

CompletionChunk text_of(size_t n_bytes) { return chunk_of(std::string(n_bytes, 'a')); }

std::vector<CompletionChunk> take_all(CompletionMailbox& mailbox) {
  std::vector<CompletionChunk> chunks;
  while (auto chunk = mailbox.take()) chunks.push_back(std::move(*chunk));
  return chunks;
}

TEST(CompletionMailbox, results_are_returned_once_and_in_order) {
  CompletionMailbox mailbox(1, std::nullopt);
  mailbox.add(text_of(1));
  mailbox.add(text_of(2));
  const auto chunks = take_all(mailbox);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[1].text, "aa");
  EXPECT_FALSE(mailbox.take());
  EXPECT_FALSE(mailbox.take_usages());
}

TEST(CompletionMailbox, usages_are_returned_when_all_completions_are_done) {
  CompletionMailbox mailbox(2, std::nullopt);
  Usage usage;
  usage.prompt_tokens = 4;
  mailbox.add_usage(1, usage);
  EXPECT_FALSE(mailbox.take_usages());
  usage.prompt_tokens = 3;
  mailbox.add(text_of(1));
  mailbox.add_usage(0, usage);
  EXPECT_FALSE(mailbox.take_usages()) << "a chunk waits before them";
  mailbox.take();
  const auto usages = mailbox.take_usages();
  ASSERT_TRUE(usages);
  ASSERT_EQ(usages->size(), 2u);
  EXPECT_EQ((*usages)[0].prompt_tokens, 3u);
  EXPECT_EQ((*usages)[1].prompt_tokens, 4u);
}

TEST(CompletionMailbox, one_wake_covers_all_results_until_they_are_taken) {
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

TEST(CompletionMailbox, earlier_results_wake_as_soon_as_a_wake_is_set) {
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
  EXPECT_FALSE(mailbox.take());
  mailbox.add_usage(0, {});
  EXPECT_FALSE(mailbox.take_usages()) << "a stream with a hole may not look whole";
}

TEST(CompletionMailbox, out_of_memory_for_a_result_is_an_overflow) {
  CompletionMailbox mailbox(1, 10'000);
  int n_wakes = 0;
  mailbox.set_wake([&] { ++n_wakes; });
  mailbox.overflow();
  EXPECT_TRUE(mailbox.has_overflowed());
  EXPECT_EQ(n_wakes, 1);
  EXPECT_FALSE(mailbox.take_usages());
}

TEST(CompletionMailbox, a_reader_that_keeps_up_never_overflows) {
  CompletionMailbox mailbox(1, 10'000);
  for (int i = 0; i < 100; ++i) {
    mailbox.add(text_of(8'000));
    mailbox.add(text_of(8'000));
    EXPECT_EQ(take_all(mailbox).size(), 2u);
  }
  EXPECT_FALSE(mailbox.has_overflowed());
}

TEST(CompletionMailbox, a_slow_reader_gets_few_events_with_all_of_the_text) {
  CompletionMailbox mailbox(1, 32'768);
  std::string said[2];
  for (int i = 0; i < 3'000; ++i) {
    for (uint32_t choice = 0; choice < 2; ++choice) {
      const std::string word = " w" + std::to_string(i % 100);
      CompletionChunk chunk = chunk_of(word, choice);
      if (i == 2'999) chunk.finish = FinishReason::kLength;
      said[choice] += word;
      mailbox.add(std::move(chunk));
    }
  }
  EXPECT_FALSE(mailbox.has_overflowed());
  std::string heard[2];
  std::optional<FinishReason> finish[2];
  const auto chunks = take_all(mailbox);
  EXPECT_LT(chunks.size(), 50u);
  for (const CompletionChunk& chunk : chunks) {
    EXPECT_FALSE(finish[chunk.choice]) << "no chunk follows the end of a choice";
    heard[chunk.choice] += chunk.text;
    finish[chunk.choice] = chunk.finish;
  }
  for (int choice = 0; choice < 2; ++choice) {
    EXPECT_EQ(heard[choice], said[choice]);
    EXPECT_EQ(finish[choice], FinishReason::kLength);
  }
}

TEST(CompletionMailbox, a_slightly_late_reader_gets_every_event) {
  CompletionMailbox mailbox(1, 32'768);
  for (int i = 0; i < 32; ++i) mailbox.add(text_of(1));
  EXPECT_EQ(take_all(mailbox).size(), 32u);
}

TEST(CompletionMailbox, merged_chunks_count_toward_the_limit) {
  CompletionMailbox mailbox(1, 16'000);
  for (int i = 0; i < 1'000; ++i) mailbox.add(text_of(5));
  EXPECT_FALSE(mailbox.has_overflowed());
  for (int i = 0; i < 2'000; ++i) mailbox.add(text_of(5));
  EXPECT_TRUE(mailbox.has_overflowed());
}

TEST(CompletionMailbox, a_whole_answer_is_counted_until_it_is_sent) {
  ByteLedger ledger(100'000);
  CompletionMailbox mailbox(1, std::nullopt, ByteShare(ledger));
  mailbox.add(text_of(10'000));
  mailbox.add(text_of(10'000));
  EXPECT_EQ(ledger.used_bytes(), 40'000u) << "text comes in parts as well";
  take_all(mailbox);
  {
    const ByteShare share = mailbox.take_share();
    EXPECT_EQ(ledger.used_bytes(), 40'000u);
  }
  EXPECT_EQ(ledger.used_bytes(), 0u);
}

TEST(CompletionMailbox, waiting_and_current_chunks_of_a_stream_are_counted) {
  ByteLedger ledger(100'000);
  CompletionMailbox mailbox(1, 1'000'000, ByteShare(ledger));
  for (int i = 0; i < 3; ++i) mailbox.add(text_of(1'000));
  EXPECT_EQ(ledger.used_bytes(), 6'000u);
  mailbox.take();
  EXPECT_EQ(ledger.used_bytes(), 6'000u);
  mailbox.take();
  EXPECT_EQ(ledger.used_bytes(), 4'000u);
  mailbox.close();
  EXPECT_EQ(ledger.used_bytes(), 0u);
}

TEST(CompletionMailbox, logprobs_are_counted_at_their_size) {
  ByteLedger ledger(100'000'000);
  CompletionMailbox mailbox(1, std::nullopt, ByteShare(ledger));
  CompletionChunk chunk;
  chunk.logprobs.resize(100);
  for (ChunkLogprob& logprob : chunk.logprobs) logprob.top.resize(20);
  chunk.prompt_logprobs.assign(100, std::vector<PromptLogprob>(21));
  mailbox.add(std::move(chunk));
  EXPECT_GE(ledger.used_bytes(), 100 * 20 * 40 + 100 * 21 * 48u);
}

TEST(CompletionMailbox, without_memory_for_more_it_overflows) {
  ByteLedger ledger(30'000);
  CompletionMailbox mailbox(1, std::nullopt, ByteShare(ledger));
  mailbox.add(text_of(10'000));
  EXPECT_FALSE(mailbox.has_overflowed());
  mailbox.add(text_of(10'000));
  EXPECT_TRUE(mailbox.has_overflowed());
  EXPECT_FALSE(mailbox.take());
}

TEST(CompletionMailbox, no_wake_follows_close) {
  auto mailbox = std::make_shared<CompletionMailbox>(1, std::nullopt);
  MailboxSink sink(mailbox, std::make_shared<KeyAccount>(0), 0, 4);
  int n_wakes = 0;
  mailbox->set_wake([&] { ++n_wakes; });
  mailbox->close();
  sink.on_chunk(text_of(1));
  sink.on_done({});
  EXPECT_EQ(n_wakes, 0);
  EXPECT_FALSE(mailbox->take());
}

TEST(CompletionMailbox, a_sink_numbers_its_choices_from_its_first) {
  auto mailbox = std::make_shared<CompletionMailbox>(1, std::nullopt);
  MailboxSink sink(mailbox, std::make_shared<KeyAccount>(0), 0, 4);
  sink.on_chunk(chunk_of("a", 1));
  EXPECT_EQ(mailbox->take()->choice, 5u);
}

}  // namespace
}  // namespace kvik
