#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/guessing_drafter.h"
#include "support/open_page_backend.h"
#include "support/temporary_folder.h"
#include "support/tiny_engine.h"
#include "tier/disk_tier.h"

// KV types with open pages give the same bits for all chunk sizes, batches and cache states: a row
// always attends to its own page as all of the page's tokens up to the row left it. Attention of
// this backend depends on the bytes of that page (OpenPageBackend).
namespace kvik {
namespace {

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<std::pair<uint32_t, std::vector<float>>> logits;
  Usage usage;

  explicit Answer(const RecordingSink& sink)
      : tokens(sink.tokens()), logits(sink.logits()), usage(sink.usage()) {}
};

void expect_same(const Answer& expected, const Answer& got) {
  EXPECT_EQ(expected.tokens, got.tokens);
  ASSERT_EQ(expected.logits.size(), got.logits.size());
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_EQ(expected.logits[i].first, got.logits[i].first);
    ASSERT_TRUE(same_bits(expected.logits[i].second, got.logits[i].second))
        << "position " << expected.logits[i].first;
  }
}

Request request_with(Request::Logits logits, const std::vector<TokenId>& prompt,
                     uint32_t max_tokens) {
  Request request = greedy_request(prompt, max_tokens);
  request.logits = logits;
  return request;
}

struct Case {
  const char* model;
  KvType type;
};

class OpenPageEngine : public testing::TestWithParam<Case> {
 protected:
  static TinyEngineOptions options(SpeculationOptions speculation = kNoSpeculation) {
    return {.model = {.name = GetParam().model},
            .n_pages = 300,
            .kv_type = GetParam().type,
            .max_step_tokens = 512,
            .speculation = speculation};
  }

  // Wraps an engine of its own.
  struct Rig {
    explicit Rig(const TinyEngineOptions& options = OpenPageEngine::options())
        : Rig(options, with_open_page_backend(load_tiny(options.model))) {}
    Rig(const TinyEngineOptions& options, TinyModel tiny)
        : backend(static_cast<OpenPageBackend&>(*tiny.backend)), rig(options, std::move(tiny)) {}
    ~Rig() {
      EXPECT_GT(backend.n_written, 0u);
      EXPECT_EQ(backend.n_runs_without, 0u);
      EXPECT_EQ(rig.pages().leased, 0u);
    }
    EngineRig* operator->() { return &rig; }
    OpenPageBackend& backend;
    EngineRig rig;
  };

  static bool has_windows() { return std::string(GetParam().model).starts_with("test-gemma"); }

  static Answer alone(const Request& request) { return Answer(*Rig()->run(request)); }

  // Submits each request n_between steps after the one before it.
  static std::vector<Answer> together(Rig& rig, const std::vector<Request>& all,
                                      uint32_t n_between = 1) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : all) {
      sinks.push_back(rig->submit(request));
      for (uint32_t i = 0; i < n_between; ++i) rig->engine().step();
    }
    rig->run();
    std::vector<Answer> answers;
    for (const auto& sink : sinks) answers.emplace_back(*sink);
    return answers;
  }
};

TEST_P(OpenPageEngine, chunks_change_nothing) {
  for (const auto wants : {Request::Logits::kAll, Request::Logits::kLast}) {
    Request request = request_with(wants, some_tokens(230), 40);
    const Answer expected = alone(request);
    for (const uint32_t chunk : {1u, 7u, 31u, 32u, 33u, 65u, 96u, 100u}) {
      SCOPED_TRACE(chunk);
      request.max_chunk = chunk;
      expect_same(expected, alone(request));
    }
  }
}

TEST_P(OpenPageEngine, batch_composition_changes_nothing) {
  std::vector<Request> all;
  std::vector<Answer> expected;
  for (uint32_t i = 0; i < 6; ++i) {
    const auto wants = i % 2 == 0 ? Request::Logits::kAll : Request::Logits::kLast;
    all.push_back(request_with(wants, some_tokens(15 + 47 * i, i), 20 + 9 * i));
    all.back().max_chunk = i % 3 == 0 ? 512 : 13 * i;
    expected.push_back(alone(all.back()));
  }
  for (const uint32_t n_between : {0u, 1u, 5u}) {
    Rig rig;
    const auto got = together(rig, all, n_between);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(i);
      expect_same(expected[i], got[i]);
    }
  }
}

TEST_P(OpenPageEngine, a_prefix_is_found_at_whole_pages_and_in_the_last_and_changes_nothing) {
  for (const uint32_t n_kept : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 99u, 130u}) {
    SCOPED_TRACE(n_kept);
    auto tokens = some_tokens(130);
    Rig rig;
    rig->run(greedy_request(tokens, 3));
    for (size_t i = n_kept; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 256;
    Request request = request_with(Request::Logits::kLast, tokens, 50);
    const Answer warm(*rig->run(request));
    EXPECT_EQ(warm.usage.cached_tokens, n_kept > 128 ? 129 : n_kept / 32 * 32);
    request.cache = Request::Cache::kOff;
    const Answer cold(*rig->run(request));
    EXPECT_EQ(cold.usage.cached_tokens, 0u);
    expect_same(cold, warm);
  }
}

// Holds for any length of the answer: the page in which the prompt ends is kept with its open page,
// even if it is full.
TEST_P(OpenPageEngine, a_fully_cached_prompt_computes_its_last_token) {
  for (const uint32_t n : {5u, 32u, 33u, 64u, 65u, 100u}) {
    for (const uint32_t n_answer : {2u, 70u}) {
      for (const uint32_t chunk : {7u, 33u, 512u}) {
        SCOPED_TRACE(fmt::format("{} tokens, answer of {}, chunks of {}", n, n_answer, chunk));
        Rig rig;
        Request request = request_with(Request::Logits::kLast, some_tokens(n), n_answer);
        request.max_chunk = chunk;
        const Answer first(*rig->run(request)), again(*rig->run(request));
        EXPECT_EQ(again.usage.cached_tokens, n - 1);
        EXPECT_EQ(again.usage.cache.miss, MissReason::kNone);
        EXPECT_FALSE(again.usage.cache.position.has_value());
        expect_same(first, again);
      }
    }
  }
}

// A step from inside a page to inside a page an even number of pages later overwrites the open page
// of its first tokens.
TEST_P(OpenPageEngine, an_aborted_step_leaves_nothing) {
  Request request = request_with(Request::Logits::kLast, some_tokens(1040), 5);
  request.max_chunk = 510;
  const Answer expected = alone(request);
  Rig rig;
  const auto broken_off = rig->submit(request);
  rig->engine().step();
  rig->engine().set_step_hooks(
      {.on_begin = {}, .are_cancelled = [](std::span<const RequestId>) { return true; }});
  rig->engine().step();
  rig->engine().set_step_hooks({});
  EXPECT_EQ(broken_off->finishes(), std::vector{FinishReason::kCancelled});
  const Answer again(*rig->run(request));
  EXPECT_EQ(again.usage.cached_tokens, 480u);
  expect_same(expected, again);
}

// This happens when a user edits the last message of a chat, or asks a second question about the
// same text.
TEST_P(OpenPageEngine, a_prompt_resumes_where_it_diverges_in_a_last_page) {
  auto tokens = some_tokens(100);
  Rig rig;
  rig->run(greedy_request(tokens, 60));
  tokens[98] = (tokens[98] + 1) % 256;
  Request request = request_with(Request::Logits::kLast, tokens, 20);
  const Answer warm(*rig->run(request));
  EXPECT_EQ(warm.usage.cached_tokens, 98u);
  request.cache = Request::Cache::kOff;
  expect_same(Answer(*rig->run(request)), warm);
}

TEST_P(OpenPageEngine, every_turn_resumes_at_its_last_token) {
  Rig rig;
  std::vector<TokenId> conversation = some_tokens(41);
  for (uint32_t turn = 0; turn < 6; ++turn) {
    const uint32_t n_before = turn == 0 ? 0 : static_cast<uint32_t>(conversation.size()) - 9;
    const Request request = request_with(Request::Logits::kLast, conversation, 23);
    const Answer answer(*rig->run(request));
    // The last token of an answer has no K and V.
    EXPECT_EQ(answer.usage.cached_tokens, turn == 0 ? 0 : n_before - 1) << turn;
    expect_same(alone(request), answer);
    conversation.insert(conversation.end(), answer.tokens.begin(), answer.tokens.end());
    const auto question = some_tokens(9, turn);
    conversation.insert(conversation.end(), question.begin(), question.end());
  }
}

// The rows that another choice is computing are copied up to the last token, with the open page.
TEST_P(OpenPageEngine, choices_of_one_request_share_their_prompt_to_the_last_token) {
  for (const uint32_t n : {20u, 50u, 77u}) {
    SCOPED_TRACE(n);
    std::vector<Request> all;
    std::vector<Answer> expected;
    for (uint32_t choice = 0; choice < 3; ++choice) {
      Request request = seeded_request(some_tokens(n), 40, 7);
      request.sampling.temperature = 1.5f;
      request.sampling.choice_index = choice;
      request.logits = Request::Logits::kLast;
      all.push_back(request);
      expected.push_back(alone(request));
    }
    Rig rig;
    const auto got = together(rig, all, 0);
    for (size_t i = 0; i < all.size(); ++i) {
      expect_same(expected[i], got[i]);
      if (i == 0) {
        EXPECT_EQ(got[i].usage.cached_tokens, 0u);
      } else if (has_windows()) {  // with windows, only sealed pages are shared
        EXPECT_GE(got[i].usage.cached_tokens, (n - 1) / 32 * 32);
      } else {
        EXPECT_EQ(got[i].usage.cached_tokens, n - 1);
      }
    }
  }
}

TEST_P(OpenPageEngine, drafts_across_the_end_of_a_page_change_nothing) {
  std::vector<Request> all;
  std::vector<Answer> expected;
  ScriptedDrafter drafter(256, 3);
  for (uint32_t i = 0; i < 4; ++i) {
    all.push_back(seeded_request(some_tokens(9 + 17 * i, i), 150, i));
    all.back().logits = i % 2 == 0 ? Request::Logits::kAll : Request::Logits::kLast;
    expected.push_back(alone(all.back()));
    auto tokens = all.back().prompt;
    tokens.insert(tokens.end(), expected.back().tokens.begin(), expected.back().tokens.end());
    drafter.know(std::move(tokens));
  }
  Rig rig(options({.mode = SpeculationOptions::Mode::kAlways, .drafter = &drafter}));
  const auto got = together(rig, all);
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(expected[i], got[i]);
  }
  const SpeculationCounters counters = rig->engine().snapshot().speculation;
  EXPECT_GT(counters.accepted_tokens, 50u);
  EXPECT_GT(counters.drafted_tokens, counters.accepted_tokens + 200) << "most are taken back";
}

// Two sequences grow until one must release its pages, at any position in a page.
TEST_P(OpenPageEngine, preemption_changes_nothing) {
  for (const uint32_t n_prompt : {500u, 513u}) {
    SCOPED_TRACE(n_prompt);
    std::vector<Request> all;
    std::vector<Answer> expected;
    for (uint32_t i = 0; i < 3; ++i) {
      all.push_back(greedy_request(some_tokens(n_prompt + i, i), 250));
      expected.push_back(alone(all.back()));
    }
    TinyEngineOptions scarce = options();
    scarce.n_pages = 46;
    Rig rig(scarce);
    const auto got = together(rig, all);
    for (size_t i = 0; i < all.size(); ++i) expect_same(expected[i], got[i]);
    if (GetParam().model == std::string("test-llama:f32")) {
      EXPECT_GT(rig->engine().snapshot().preemptions, 0u);
    }
  }
}

TEST_P(OpenPageEngine, disk_pages_are_found_to_the_token_after_a_restart) {
  const TemporaryFolder folder;
  const Request request = request_with(Request::Logits::kLast, some_tokens(150), 8);
  const Answer cold = alone(request);
  for (int start = 0; start < 2; ++start) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
    ASSERT_TRUE(tier.has_value());
    TinyEngineOptions with_disk = options();
    with_disk.tiers = {{TierKind::kDisk, tier->get()}};
    Rig rig(with_disk);
    const auto sink = rig->submit(request);
    while (!sink->is_finished()) {
      if (!rig->engine().step()) rig->engine().wait_for_tier(std::chrono::milliseconds(5));
    }
    const Answer answer(*sink);
    EXPECT_EQ(answer.usage.cached_tokens, start == 0 ? 0 : 149);
    EXPECT_EQ(answer.usage.cache.tier_tokens, start == 0 ? 0 : 149);
    expect_same(cold, answer);
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, OpenPageEngine,
    testing::Values(Case{"test-llama:f32", KvType::kInt4},
                    Case{"test-gemma3:q8_0", KvType::kInt8Int4},  // windows
                    Case{"test-gemma4-e:f32", KvType::kInt4},     // KV sharing between layers
                    Case{"test-mla:q8_0", KvType::kInt4},
                    Case{"test-qwen3moe:q4_0", KvType::kInt8Int4},
                    Case{"test-gemma3:q4_0", KvType::kInt8}, Case{"test-mla:q8_0", KvType::kInt8}),
    [](const auto& info) {
      std::string name = fmt::format("{}_{}", info.param.model, name_of(info.param.type));
      for (char& c : name) {
        if (c == '-' || c == ':' || c == '/') c = '_';
      }
      return name;
    });

// The pages of a draft model have the same type. With the same weights all draft tokens are
// accepted.
TEST(OpenPages, a_draft_model_has_open_pages_too) {
  const TinyEngineOptions plain{.n_pages = 200, .kv_type = KvType::kInt4};
  TinyEngineOptions drafting = plain;
  drafting.n_pages = 400;
  drafting.speculation = {.mode = SpeculationOptions::Mode::kAlways, .n_max = 4};
  drafting.draft = "test-llama:f32";
  EngineRig a(plain, with_open_page_backend(load_tiny(plain.model)));
  EngineRig b(drafting, with_open_page_backend(load_tiny(drafting.model)));
  for (uint32_t i = 0; i < 3; ++i) {
    const Request request = seeded_request(some_tokens(20 + 25 * i, i), 100, i);
    EXPECT_EQ(a.run(request)->tokens(), b.run(request)->tokens());
  }
  const SpeculationCounters counters = b.engine().snapshot().speculation;
  EXPECT_GT(counters.drafted_tokens, 100u);
  EXPECT_EQ(counters.accepted_tokens, counters.drafted_tokens);
}

uint64_t bytes_of(const EngineSnapshot& snapshot, MemoryKind kind) {
  return snapshot.kv_bytes[static_cast<size_t>(kind)];
}

TEST(OpenPages, are_counted_in_the_budget) {
  for (const uint32_t n_pages : {40u, 400u, 4000u}) {
    EngineRig rig({.n_pages = n_pages, .kv_type = KvType::kInt4});
    const EngineSnapshot snapshot = rig.engine().snapshot();
    const uint64_t open = bytes_of(snapshot, MemoryKind::kOpenPages);
    EXPECT_GT(open, 0u);
    if (n_pages > 40) {
      EXPECT_LE(4 * open, snapshot.kv_budget_bytes);
    }
    EXPECT_EQ(open + bytes_of(snapshot, MemoryKind::kPages), snapshot.kv_budget_bytes);
    EXPECT_EQ(snapshot.pages.total(), n_pages);
  }
}

TEST(OpenPages, no_other_type_has_them_and_no_model_with_states) {
  for (const KvType type : kAllKvTypes) {
    for (const char* name : {"test-llama:f32", "test-qwen35:f32"}) {
      if (has_open_pages(type) && name == std::string("test-llama:f32")) continue;
      const TinyEngineOptions options{.model = {.name = name}, .n_pages = 200, .kv_type = type};
      TinyModel tiny = with_open_page_backend(load_tiny(options.model));
      const auto& backend = static_cast<OpenPageBackend&>(*tiny.backend);
      EngineRig rig(options, std::move(tiny));
      rig.run(greedy_request(some_tokens(70), 4));
      EXPECT_EQ(backend.n_written, 0u) << name << " " << name_of(type);
      EXPECT_EQ(bytes_of(rig.engine().snapshot(), MemoryKind::kOpenPages), 0u);
    }
  }
}

// If only few sequences can have open pages, the others wait.
TEST(OpenPages, a_small_budget_holds_one_sequence_at_once_and_answers_all) {
  const TinyEngineOptions options{.n_pages = 8, .kv_type = KvType::kInt4};
  EngineRig rig(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 4; ++i)
    sinks.push_back(rig.submit(greedy_request(some_tokens(50, i), 40)));
  uint32_t most = 0;
  while (rig.engine().step()) most = std::max(most, rig.engine().snapshot().n_running);
  EXPECT_EQ(most, 1u);
  for (const auto& sink : sinks) EXPECT_EQ(sink->tokens().size(), 40u);
}

TEST(OpenPages, a_budget_that_holds_none_is_rejected) {
  TinyModel tiny = load_tiny();
  const TickingClock clock;
  const auto engine = Engine::create(std::move(tiny.model), *tiny.backend,
                                     {.kv_budget_bytes = 4096, .kv_type = KvType::kInt4}, clock);
  ASSERT_FALSE(engine.has_value());
  EXPECT_NE(engine.error().message.find("open pages"), std::string::npos) << engine.error().message;
}

}  // namespace
}  // namespace kvik
