#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/operate/live_json.h"
#include "server/operate/live_mailbox.h"
#include "server/server_fixture.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Phase = LiveSequence::Phase;

TimePoint at_ms(int ms) { return TimePoint{} + std::chrono::milliseconds(ms); }

PageCell cell(uint32_t page, PageState state = PageState::kCached) {
  return {.page = PageId{page},
          .state = state,
          .group = 0,
          .n_owners = 0,
          .n_tokens = 32,
          .parent = {},
          .history = {.taken = at_ms(1), .last_used = at_ms(2)}};
}

LiveStep step(uint64_t number) {
  return {.number = number, .end = at_ms(3), .record = {.n_sequences = 1, .n_decode_rows = 1}};
}

LiveSequence sequence(uint64_t id, LiveSequence::Phase phase) {
  LiveSequence sequence;
  sequence.id = RequestId{id};
  sequence.phase = phase;
  return sequence;
}

std::shared_ptr<const LiveView> view_of(std::vector<PageCell> pages) {
  auto view = std::make_shared<LiveView>();
  view->pages = std::move(pages);
  return view;
}

std::vector<uint32_t> numbers(const std::vector<PageCell>& pages) {
  std::vector<uint32_t> out;
  for (const PageCell& page : pages) out.push_back(static_cast<uint32_t>(page.page));
  return out;
}

// --- merging views ---

TEST(MergedViews, the_newer_state_of_a_page_counts) {
  LiveView older, newer;
  older.pages = {cell(1), cell(4), cell(7)};
  newer.pages = {cell(2), cell(4, PageState::kFree)};
  const LiveView both = merged(older, newer);
  EXPECT_THAT(numbers(both.pages), ElementsAre(1, 2, 4, 7));
  EXPECT_EQ(both.pages[2].state, PageState::kFree);
}

TEST(MergedViews, a_whole_view_replaces_earlier_ones) {
  LiveView changes, whole;
  changes.pages = {cell(1)};
  whole.pages = {cell(2)};
  whole.is_whole = true;
  const LiveView then_whole = merged(changes, whole);
  EXPECT_TRUE(then_whole.is_whole);
  EXPECT_THAT(numbers(then_whole.pages), ElementsAre(2));
  const LiveView whole_then = merged(whole, changes);
  EXPECT_TRUE(whole_then.is_whole);
  EXPECT_THAT(numbers(whole_then.pages), ElementsAre(1, 2));
}

TEST(MergedViews, a_late_reader_learns_of_ended_sequences) {
  LiveView older, newer;
  older.sequences = {sequence(1, Phase::kDecode), sequence(2, Phase::kEnded)};
  newer.sequences = {sequence(3, Phase::kDecode)};
  const LiveView both = merged(older, newer);
  ASSERT_EQ(both.sequences.size(), 2u);
  EXPECT_EQ(both.sequences[0].id, RequestId{3});
  EXPECT_EQ(both.sequences[1].id, RequestId{2});
}

TEST(MergedViews, steps_are_unique_and_bounded) {
  LiveView older, newer;
  for (uint64_t n = 1; n <= 200; ++n) older.steps.push_back(step(n));
  for (uint64_t n = 150; n <= 350; ++n) newer.steps.push_back(step(n));
  const LiveView both = merged(older, newer);
  ASSERT_EQ(both.steps.size(), 256u);
  for (size_t i = 0; i < both.steps.size(); ++i) EXPECT_EQ(both.steps[i].number, 95 + i);
}

TEST(LiveMailbox, a_late_reader_gets_one_view_of_all_that_it_missed) {
  LiveMailbox mailbox;
  mailbox.on_view(view_of({cell(1)}));
  mailbox.on_view(view_of({cell(2)}));
  const auto news = mailbox.take();
  ASSERT_NE(news.view, nullptr);
  EXPECT_THAT(numbers(news.view->pages), ElementsAre(1, 2));
  EXPECT_EQ(mailbox.take().view, nullptr);
}

// --- as JSON ---

TEST(LiveJson, says_what_a_view_holds) {
  LiveView view;
  view.now = at_ms(500);
  view.engine.pages = {.free = 3, .leased = 1, .sealed = 2, .cached = 4};
  view.engine.generated_tokens = 11;
  view.engine.histograms.ttft_s.record(0.02);
  view.steps = {step(9)};
  view.sequences = {{.id = RequestId{5},
                     .phase = LiveSequence::Phase::kDecode,
                     .n_prompt = 40,
                     .n_found = 32,
                     .n_cached = 41,
                     .n_generated = 2,
                     .max_tokens = 16,
                     .head = PageId{6},
                     .age = std::chrono::milliseconds(100)}};
  view.pages = {cell(6)};
  view.pages[0].parent = PageId{3};
  view.pages[0].history.is_saved = true;
  view.is_whole = true;
  ModelCard card;
  card.id = "a \"model\"";
  card.backend = "cpu/scalar";
  const std::string text = live_json(view, card, at_ms(0));
  const boost::json::value json = boost::json::parse(text);
  EXPECT_EQ(json.at("now").as_double(), 500);
  EXPECT_EQ(json.at("model").as_string(), "a \"model\"");
  EXPECT_EQ(json.at("backend").as_string(), "cpu/scalar");
  EXPECT_EQ(json.at("cached").as_int64(), 4);
  EXPECT_EQ(json.at("generated_tokens").as_int64(), 11);
  EXPECT_EQ(json.at("ttft_s").at("count").as_int64(), 1);
  EXPECT_EQ(json.at("ttft_s").at("buckets").as_array().size(), 2u);
  EXPECT_THAT(text, HasSubstr(R"("sequences":[5,1,40,32,41,2,16,6,100.0])"));
  EXPECT_THAT(text, HasSubstr(R"("pages":[6,3,0,0,32,3,1.0,2.0,1])"));
  EXPECT_THAT(text, HasSubstr(R"("steps":[9,3.0,0,0,0,1,1,0,0])"));
  EXPECT_TRUE(json.at("tiers").as_object().empty());
}

TEST(LiveJson, a_disk_tier_is_shown_if_there_is_one) {
  LiveView view;
  view.engine.tiers[0] = {.is_on = true, .size = {.n_pages = 7, .n_bytes = 900}};
  const auto json = boost::json::parse(live_json(view, {}, at_ms(0)));
  EXPECT_EQ(json.at("tiers").at("disk").at("pages").as_int64(), 7);
}

// --- over HTTP ---

class ServerLive : public ServerFixture {
 protected:
  // Returns a client whose stream has begun. Sets `head`.
  RawClient watching(std::string_view headers = "") {
    RawClient watcher = client();
    watcher.send("GET /kvik/live HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n");
    head = watcher.read_head();
    return watcher;
  }

  RawResponse head;
};

TEST_F(ServerLive, streams_a_view_as_an_event) {
  RawClient watcher = watching();
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.header("content-type"), StartsWith("text/event-stream"));
  EXPECT_EQ(head.header("cache-control"), "no-cache");
  const auto sink = service.wait_for_watcher();
  ASSERT_NE(sink, nullptr);
  sink->on_view(view_of({cell(6)}));
  const auto event = watcher.read_chunk();
  ASSERT_TRUE(event.has_value());
  EXPECT_THAT(*event, StartsWith("data: {"));
  EXPECT_THAT(*event, HasSubstr(R"("pages":[6,3,)"));
  EXPECT_THAT(*event, Not(HasSubstr("\"tokens\"")));
  sink->on_view(view_of({cell(8)}));
  EXPECT_THAT(watcher.read_chunk().value_or(""), HasSubstr(R"("pages":[8,3,)"));
}

// Compares what an ordinary key and an operator's key see of the same view.
class ServerLiveKeys : public ServerLive {
 protected:
  void SetUp() override {
    options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "bank"},
                                           {.secret = "o", .name = "ops", .is_operator = true}};
  }
  std::string seen_with(const std::string& key) {
    RawClient watcher = watching("Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(head.status, 200);
    const auto sink = service.wait_for_watcher();
    if (!sink) return "";
    auto view = std::make_shared<LiveView>();
    view->engine.pages = {.free = 5, .leased = 6, .sealed = 7, .cached = 8};
    view->engine.prompt_tokens = 9;
    view->engine.kv_budget_bytes = 12'000;
    view->engine.histograms.ttft_s.record(0.02);
    view->steps = {step(9)};
    view->pages = {cell(3), cell(4), cell(5, PageState::kFree)};
    view->pages[0].tenant = tenant_hash("bank");
    view->pages[1].tenant = tenant_hash("rival");
    view->sequences = {sequence(1, Phase::kDecode), sequence(2, Phase::kPrefill)};
    view->sequences[0].tenant = tenant_hash("rival");
    view->sequences[1].tenant = tenant_hash("bank");
    view->sequences[1].head = PageId{3};
    sink->on_view(view);
    return watcher.read_chunk().value_or("");
  }
};

TEST_F(ServerLiveKeys, a_key_sees_its_own_sequences_and_nothing_that_others_do) {
  const std::string event = seen_with("k");
  EXPECT_THAT(event, HasSubstr(R"("sequences":[2,0,0,0,0,0,0,-1,)"));
  EXPECT_THAT(event, HasSubstr(R"("pages":[])"));
  EXPECT_THAT(event, HasSubstr(R"("steps":[])"));
  EXPECT_THAT(event, HasSubstr(R"("running":1,"free":0,"leased":0,"sealed":0,"cached":0,)"));
  EXPECT_THAT(event, HasSubstr(R"("computed_tokens":0)"));
  EXPECT_THAT(event, HasSubstr(R"("budget_bytes":12000)"));
}

TEST_F(ServerLiveKeys, an_operators_key_sees_all) {
  const std::string event = seen_with("o");
  EXPECT_THAT(event, HasSubstr(R"("sequences":[1,)"));
  EXPECT_THAT(event, HasSubstr(R"("pages":[3,3,0,0,32,-1,1.0,2.0,0,4,3,0,)"));
  EXPECT_THAT(event, HasSubstr(R"("computed_tokens":9)"));
}

TEST_F(ServerLive, without_keys_all_clients_see_everything) {
  RawClient watcher = watching();
  auto view = std::make_shared<LiveView>();
  view->pages = {cell(4)};
  view->pages[0].tenant = tenant_hash("somebody");
  service.wait_for_watcher()->on_view(view);
  EXPECT_THAT(watcher.read_chunk().value_or(""), HasSubstr(R"("pages":[4,3,0,0,32,-1,1.0,2.0,0])"));
}

TEST_F(ServerLive, a_watcher_that_leaves_is_forgotten) {
  {
    RawClient watcher = watching();
    ASSERT_NE(service.wait_for_watcher(), nullptr);
  }
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  while (service.is_watched() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(service.is_watched());
  expect_alive();
}

TEST_F(ServerLive, the_engines_end_ends_the_stream) {
  RawClient watcher = watching();
  const auto sink = service.wait_for_watcher();
  ASSERT_NE(sink, nullptr);
  sink->on_end();
  EXPECT_THAT(watcher.read_chunk().value_or(""), StartsWith("event: end\n"));
  EXPECT_FALSE(watcher.read_chunk().has_value());
}

TEST_F(ServerLive, needs_a_key_if_the_server_has_keys) {
  options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "a"}};
  expect_error(client().get("/kvik/live"), 401);
  RawClient watcher = watching("x-api-key: k\r\n");
  EXPECT_EQ(head.status, 200);
}

TEST_F(ServerLive, one_watcher_too_many_gets_an_error) {
  service.refuse({ErrorCode::kExhausted, "16 clients are watching already"});
  expect_error(client().get("/kvik/live"), 429);
}

TEST_F(ServerLive, a_draining_server_takes_no_watchers) {
  start().stop_accepting();
  expect_error(client().get("/kvik/live"), 503);
}

// --- the page ---

class ServerPage : public ServerFixture {};

TEST_F(ServerPage, needs_no_key_and_has_a_content_security_policy) {
  options.api_keys = std::vector<ApiKey>{{.secret = "k", .name = "a"}};
  const RawResponse page = client().get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<title>Kvik</title>"));
  const std::string policy = page.header("content-security-policy");
  EXPECT_THAT(policy, StartsWith("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(page.header("x-content-type-options"), "nosniff");
  EXPECT_EQ(page.header("content-encoding"), "");
}

TEST_F(ServerPage, is_compressed_for_clients_that_accept_gzip) {
  const std::string plain = client().get("/").body;
  const RawResponse small = client().get("/", "Accept-Encoding: br, gzip\r\n");
  EXPECT_EQ(small.header("content-encoding"), "gzip");
  EXPECT_EQ(small.header("vary"), "Accept, Accept-Encoding, User-Agent");
  EXPECT_LT(small.body.size(), plain.size());
  EXPECT_THAT(small.body, StartsWith("\x1f\x8b"));
  EXPECT_EQ(client().get("/", "Accept-Encoding: gzip;q=0\r\n").body, plain);
}

TEST_F(ServerPage, is_not_sent_again_if_the_etag_matches) {
  const RawResponse page = client().get("/");
  const std::string etag = page.header("etag");
  ASSERT_NE(etag, "");
  EXPECT_EQ(page.header("cache-control"), "no-cache");
  RawClient browser = client();
  browser.send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + etag + "\r\n\r\n");
  const RawResponse again = browser.read_head();
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.header("etag"), etag);
  EXPECT_EQ(again.header("content-length"), "");
  EXPECT_EQ(browser.get("/health").status, 200) << "the connection stays open";
  EXPECT_EQ(client().get("/", "If-None-Match: \"other\"\r\n").status, 200);
}

}  // namespace
}  // namespace kvik
