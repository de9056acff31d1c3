#include "cli/key_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/check.h"

namespace kvik {
namespace {

class Pipe {
 public:
  Pipe() { CHECK(::pipe(fds_) == 0); }
  ~Pipe() {
    ::close(fds_[0]);
    close();
  }
  int out() const { return fds_[0]; }
  void write(std::string_view bytes) const {
    CHECK(::write(fds_[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void close() {
    if (fds_[1] >= 0) ::close(fds_[1]);
    fds_[1] = -1;
  }

 private:
  int fds_[2];
};

class Keys : public testing::Test {
 protected:
  using Kind = KeySource::Kind;

  std::u32string all() {
    typed.close();
    std::u32string out;
    for (auto key = keys.next(); key.kind == Kind::kCharacter; key = keys.next()) {
      out += key.character;
    }
    return out;
  }

  Pipe typed, signals;
  KeySource keys{typed.out(), signals.out()};
};

TEST_F(Keys, are_characters_not_bytes) {
  typed.write("aä日😀\x03");
  EXPECT_EQ(all(), U"aä日😀\x03");
}

TEST_F(Keys, wait_for_a_character_to_be_whole) {
  typed.write("\xe6\x97");
  signals.write("!");
  EXPECT_EQ(keys.next().kind, Kind::kSignal);  // instead of half a character
  char taken = 0;
  ASSERT_EQ(::read(signals.out(), &taken, 1), 1);
  typed.write("\xa5x");
  EXPECT_EQ(all(), U"日x");
}

TEST_F(Keys, that_are_no_utf8_are_marked) {
  typed.write("a\xff\xc3(b\xe6");
  EXPECT_EQ(all(), U"a\ufffd\ufffd(b\ufffd");
}

TEST_F(Keys, end_for_good) {
  EXPECT_EQ(all(), U"");
  EXPECT_EQ(keys.next().kind, Kind::kEnd);
}

TEST_F(Keys, that_were_typed_come_before_a_signal) {
  typed.write("ab");
  EXPECT_EQ(keys.next().character, U'a');
  signals.write("!");
  EXPECT_EQ(keys.next().character, U'b');
  EXPECT_EQ(keys.next().kind, Kind::kSignal);
}

}  // namespace
}  // namespace kvik
