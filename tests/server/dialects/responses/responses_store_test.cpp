#include "server/dialects/responses/responses_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

namespace kvik {
namespace {

using testing::ElementsAre;
using Record = ResponseStore::Record;

Record record(std::string response, std::string previous = "") {
  return {.owner = "me",
          .response = std::move(response),
          .items = {"1"},
          .item_ids = {"item"},
          .previous = std::move(previous)};
}

constexpr ResponseStore::Bounds kLarge{.total_bytes = 1 << 20, .bytes_of_key = 1 << 20};

class ListedArchive final : public ResponseArchive {
 public:
  void load(const ResponseStore::Bounds&,
            const std::function<void(std::string id, Record)>& take) override {
    for (const auto& [id, kept] : all) take(id, kept);
  }
  void put(const std::string& id, const Record& kept) override { all.emplace_back(id, kept); }
  void erase(const std::string& id) override {
    std::erase_if(all, [&](const auto& kept) { return kept.first == id; });
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, kept] : all) ids.push_back(id);
    return ids;
  }

  std::vector<std::pair<std::string, Record>> all;
};

TEST(ResponseStore, an_archive_holds_what_the_store_holds) {
  ListedArchive archive;
  ResponseStore store({.total_bytes = 2000, .bytes_of_key = 2000}, &archive);
  store.put("a", record(std::string(800, 'a')));
  store.put("b", record(std::string(800, 'b')));
  EXPECT_THAT(archive.ids(), ElementsAre("b"));  // there is no room for both
  store.put("b", record("again"));
  ASSERT_THAT(archive.ids(), ElementsAre("b"));
  EXPECT_EQ(archive.all[0].second.response, "again");
  EXPECT_TRUE(store.erase("me", "b"));
  EXPECT_THAT(archive.ids(), ElementsAre());
}

TEST(ResponseStore, a_response_in_progress_is_in_memory_only) {
  ListedArchive archive;
  ResponseStore store(kLarge, &archive);
  EXPECT_TRUE(store.put_unfinished("a", record("begun")));
  EXPECT_EQ(store.response("me", "a"), "begun");
  EXPECT_EQ(store.response("you", "a"), std::nullopt);
  EXPECT_THAT(archive.ids(), ElementsAre());
  store.put("a", record("ended"));
  EXPECT_EQ(store.response("me", "a"), "ended");
  EXPECT_THAT(archive.ids(), ElementsAre("a"));
}

TEST(ResponseStore, responses_in_progress_are_not_evicted) {
  ResponseStore store({.total_bytes = 4000, .bytes_of_key = 4000});
  const std::string text(700, 'a');
  EXPECT_TRUE(store.put_unfinished("a", record(text)));
  EXPECT_FALSE(store.put_unfinished("b", record(std::string(1500, 'b')))) << "more than half";
  for (const char* id : {"c", "d", "e", "f", "g"}) store.put(id, record(text));
  EXPECT_EQ(store.response("me", "a"), text);
  EXPECT_EQ(store.response("me", "c"), std::nullopt);
  EXPECT_EQ(store.response("me", "g"), text);
  store.put("a", record("ended"));
  EXPECT_TRUE(store.put_unfinished("b", record(text))) << "there is room again";
}

TEST(ResponseStore, a_store_begins_with_what_its_archive_has) {
  ListedArchive archive;
  {
    ResponseStore store(kLarge, &archive);
    store.put("a", record("first"));
    store.put("b", record("second", "a"));
  }
  ResponseStore store(kLarge, &archive);
  EXPECT_EQ(store.response("me", "a"), "first");
  EXPECT_EQ(store.response("another", "a"), std::nullopt);
  EXPECT_THAT(store.conversation("me", "b").value(), ElementsAre("1", "1"));
  EXPECT_THAT(archive.ids(), ElementsAre("a", "b"));  // loaded records are not written again
}

TEST(ResponseStore, records_beyond_the_bounds_are_deleted_from_the_archive) {
  ListedArchive archive;
  archive.put("a", record(std::string(800, 'a')));
  archive.put("b", record(std::string(800, 'b')));
  ResponseStore store({.total_bytes = 2000, .bytes_of_key = 2000}, &archive);
  EXPECT_EQ(store.response("me", "a"), std::nullopt);
  EXPECT_THAT(archive.ids(), ElementsAre("b"));
}

TEST(ResponseStore, an_item_id_of_another_owner_hides_no_item) {
  ResponseStore store(kLarge);
  store.put("a", record("mine"));
  Record theirs = record("theirs");
  theirs.owner = "no";
  store.put("b", theirs);
  EXPECT_EQ(store.item("me", "item"), "1");
  store.erase("no", "b");
  EXPECT_EQ(store.item("me", "item"), "1");
}

TEST(ResponseStore, many_small_items_take_no_more_memory_than_is_counted) {
  Record kept = record("");
  const std::string item = R"({"type":"message","role":"user","content":"a"})";
  for (int i = 0; i < 10'000; ++i) {
    kept.items.push_back(item);
    kept.item_ids.push_back("a_message_with_number_" + std::to_string(i));
  }
  const size_t before = mallinfo2().uordblks;
  ResponseStore store({.total_bytes = 16 << 20, .bytes_of_key = 16 << 20});
  store.put("a", kept);
  EXPECT_LE(mallinfo2().uordblks - before, store.n_bytes());
  EXPECT_LT(store.n_bytes(), 6 << 20);
}

}  // namespace
}  // namespace kvik
