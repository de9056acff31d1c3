#include "server/dialects/json_body.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

std::vector<std::string> pieces_of(JsonBody& body) {
  std::vector<std::string> pieces;
  bool is_more = true;
  while (is_more) is_more = body.next(pieces.emplace_back());
  return pieces;
}

void add_number(size_t i, std::string& out) { out += std::to_string(i); }

TEST(JsonBody, texts_and_lists_follow_each_other) {
  JsonBody body(0);
  body.text("{\"a\":[");
  body.each(3, add_number);
  body.text("],");
  body.text("\"b\":[");
  body.each(0, add_number);
  body.text("],\"c\":");
  body.once([](std::string& out) { out += "true"; });
  body.text("}");
  EXPECT_EQ(pieces_of(body), std::vector<std::string>{R"({"a":[0,1,2],"b":[],"c":true})"});
}

TEST(JsonBody, an_empty_body_is_one_empty_piece) {
  JsonBody body(0);
  EXPECT_EQ(pieces_of(body), std::vector<std::string>{""});
}

TEST(JsonBody, long_lists_come_in_pieces_that_add_up_and_are_written_when_asked_for) {
  const size_t n = 100'000;
  size_t n_written = 0;
  JsonBody body(0);
  body.text("[");
  body.each(n, [&](size_t i, std::string& out) {
    EXPECT_EQ(i, n_written++);
    add_number(i, out);
  });
  body.text("]");
  std::string first;
  EXPECT_TRUE(body.next(first));
  EXPECT_GE(first.size(), BodySource::kPieceBytes);
  EXPECT_LT(first.size(), BodySource::kPieceBytes + 16);
  EXPECT_LT(n_written, n / 2);
  std::string all = first;
  for (const std::string& piece : pieces_of(body)) {
    EXPECT_LT(piece.size(), BodySource::kPieceBytes + 16);
    all += piece;
  }
  std::string want = "[";
  for (size_t i = 0; i < n; ++i) want += (i > 0 ? "," : "") + std::to_string(i);
  EXPECT_EQ(all, want + "]");
}

TEST(JsonBody, written_parts_and_the_share_are_released) {
  ByteLedger ledger(1000);
  ByteShare share(ledger);
  ASSERT_TRUE(share.grow(500));
  auto kept = std::make_shared<std::string>("x");
  const std::weak_ptr<std::string> watched = kept;
  {
    JsonBody body(500, std::move(share));
    body.once([kept = std::move(kept)](std::string& out) { out += *kept; });
    std::string out;
    EXPECT_FALSE(body.next(out));
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(ledger.used_bytes(), 500u);
  }
  EXPECT_EQ(ledger.used_bytes(), 0u);
}

TEST(JsonBody, objects_are_opened_and_closed_around_more) {
  EXPECT_EQ(opened({{"a", 1}}) + closed({{"b", 2}}), R"({"a":1,"b":2})");
  EXPECT_EQ(opened({{"a", 1}}) + closed({}), R"({"a":1})");
}

}  // namespace
}  // namespace kvik
