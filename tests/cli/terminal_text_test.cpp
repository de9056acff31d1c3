#include "cli/terminal_text.h"

#include <gtest/gtest.h>

#include <random>

namespace kvik {
namespace {

TEST(TerminalText, leaves_ordinary_text_as_it_is) {
  const std::string text = "To be, or not to be:\n\täöü 日本 😀 e\u0301";
  EXPECT_EQ(terminal_text(text), text);
  EXPECT_EQ(valid_utf8(text), text);
}

TEST(TerminalText, shows_what_would_steer_a_terminal) {
  EXPECT_EQ(terminal_text("\033]0;owned\007"), "␛]0;owned␇");
  EXPECT_EQ(terminal_text("\033[2J\b\x7f"), "␛[2J␈␡");
  EXPECT_EQ(terminal_text(std::string_view("a\0b", 3)), "a␀b");
  EXPECT_EQ(terminal_text("\u009b31m"), "\ufffd31m");  // CSI in one character
}

TEST(TerminalText, lets_no_line_hide_another) {
  EXPECT_EQ(terminal_text("safe\rgone\r\n"), "safegone\n");
}

TEST(TerminalText, prints_no_bytes_that_are_no_utf8) {
  EXPECT_EQ(terminal_text("a\xff\xc3"), "a\ufffd\ufffd");
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\ufffd");
  EXPECT_EQ(valid_utf8("\033"), "\033");
}

TEST(TerminalText, no_bytes_whatever_leave_a_control_character) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(1 + random() % 40, 0);
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = terminal_text(bytes);
    EXPECT_EQ(valid_utf8(text), text);
    for (const unsigned char c : text) {
      EXPECT_TRUE(c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)) << int{c};
    }
  }
}

}  // namespace
}  // namespace kvik
