#include "base/printable.h"

#include <gtest/gtest.h>

#include <random>

namespace kvik {
namespace {

std::string lines(std::string_view text) { return printable(text, Breaks::kKept); }
std::string line(std::string_view text) { return printable(text, Breaks::kShown); }

TEST(PrintableText, ordinary_text_stays_as_it_is) {
  const std::string text = "To be, or not to be: äöü 日本 😀 e\u0301";
  EXPECT_EQ(line(text), text);
  EXPECT_EQ(lines("a\n\tb"), "a\n\tb");
  EXPECT_EQ(valid_utf8(text), text);
}

TEST(PrintableText, what_would_steer_a_terminal_is_shown) {
  EXPECT_EQ(lines("\033]0;owned\007"), "␛]0;owned␇");
  EXPECT_EQ(lines("\033[2J\b\x7f"), "␛[2J␈␡");
  EXPECT_EQ(lines(std::string_view("a\0b", 3)), "a␀b");
  EXPECT_EQ(lines("\u009b31m"), "\ufffd31m");  // CSI as one character
}

TEST(PrintableText, no_line_hides_another) { EXPECT_EQ(lines("safe\rgone\r\n"), "safegone\n"); }

TEST(PrintableText, a_line_stays_one_and_reads_from_left_to_right) {
  EXPECT_EQ(line("a\nb\r\tc"), "a␊b␍␉c");
  EXPECT_EQ(line("a\u2028b\u202egpj.exe\u2066"), "a\ufffdb\ufffdgpj.exe\ufffd");
}

TEST(PrintableText, bytes_that_are_no_utf8_become_replacement_characters) {
  EXPECT_EQ(lines("a\xff\xc3"), "a\ufffd\ufffd");
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\ufffd");
  EXPECT_EQ(valid_utf8("\033"), "\033");
}

TEST(PrintableText, what_a_message_quotes_is_short) {
  EXPECT_EQ(printable("a\033b"), "a␛b");
  EXPECT_EQ(printable(std::string(1000, 'x')), fmt::format("{}…", std::string(200, 'x')));
}

TEST(PrintableText, a_name_is_printable_for_as_long_as_it_lives) {
  const Printable name = "demo\n\xff";
  EXPECT_EQ(name.text(), "demo␊\ufffd");
  EXPECT_EQ(fmt::format("{:>8}", name), "  demo␊\ufffd");
  EXPECT_TRUE(name == "demo␊\ufffd");
  EXPECT_FALSE(name == "demo");
}

TEST(PrintableText, no_bytes_whatever_leave_a_control_character) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(1 + random() % 40, 0);
    for (char& c : bytes) c = static_cast<char>(random());
    for (const std::string& text : {lines(bytes), line(bytes)}) {
      EXPECT_EQ(valid_utf8(text), text);
      for (const unsigned char c : text) {
        EXPECT_TRUE((c == '\n' || c == '\t' || c >= 0x20) && c != 0x7f) << int{c};
      }
    }
    EXPECT_EQ(line(bytes).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace kvik
