#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/console.h"

namespace kvik {

// A user whose keys the test wrote down beforehand, and a screen to look at.
class FakeConsole final : public Console {
 public:
  using Kind = Input::Kind;

  void type(std::string line) { inputs_.push_back({Kind::kLine, std::move(line)}); }
  void interrupt(std::string typed = "") {
    inputs_.push_back({Kind::kInterrupt, std::move(typed)});
  }

  // The reaction of the user to an answer that does not end; the default is to interrupt it.
  Wake patience = Wake::kInterrupted;

  Input read(Prompt prompt) override {
    prompts.push_back(prompt);
    if (inputs_.empty()) return {.kind = Kind::kEnd};
    Input next = std::move(inputs_.front());
    inputs_.pop_front();
    return next;
  }
  void remember(const std::string& input) override { remembered.push_back(input); }

  // The screen: <dim> and <error> stand before what is printed so.
  void write(std::string_view text, TextStyle style) override {
    if (style != style_)
      screen += style == TextStyle::kDim     ? "<dim>"
                : style == TextStyle::kError ? "<error>"
                                             : "<plain>";
    style_ = style;
    screen += text;
  }
  void show_progress(uint32_t n_done, uint32_t n_all) override {
    progress.emplace_back(n_done, n_all);
  }

  Wake wait() override { return n_wakes_ > 0 ? (--n_wakes_, Wake::kWoken) : patience; }
  void wake() override { ++n_wakes_; }

  bool shows(std::string_view text) const { return screen.find(text) != std::string::npos; }

  std::string screen;
  std::vector<Prompt> prompts;
  std::vector<std::string> remembered;
  std::vector<std::pair<uint32_t, uint32_t>> progress;

 private:
  std::deque<Input> inputs_;
  TextStyle style_ = TextStyle::kPlain;
  int n_wakes_ = 0;
};

}  // namespace kvik
