#include <algorithm>
#include <array>
#include <string>

#include "text/grammar/thread_stepper.h"

// Arrays: what may stand at each place, and what items have taken of those that must differ.
namespace kvik::grammar {

void ThreadStepper::open_array(const Thread& thread) {
  if (byte_ != '[') return;
  const ArrayForm& array = m_.parts_->arrays[thread.expr];
  const std::vector<uint32_t> none(1 + array.counts.size());
  const Frame::Kind kind = array.unique ? Frame::kUnique : Frame::kArray;
  const uint32_t stack = m_.push({kind, thread.expr, m_.lists_.put(none), thread.stack});
  out_.push_back({.kind = Thread::kFirstItem, .stack = stack, .left = max_run_});
}

bool ThreadStepper::array_can_close(const Frame& frame) {
  const ArrayForm& array = m_.parts_->arrays[frame.a];
  const auto list = m_.lists_.get(frame.b);
  if (list[0] < array.min) return false;
  for (size_t c = 0; c < array.counts.size(); ++c) {
    if (list[1 + c] < array.counts[c].min) return false;
  }
  return true;
}

void ThreadStepper::step_array(const Thread& thread) {
  if (takes_blank(thread)) return;
  const Frame top = m_.frame(thread.stack);
  if (byte_ == ']' && array_can_close(top)) complete(top.parent);
  const bool is_first = thread.kind == Thread::kFirstItem;
  if (!is_first && byte_ != ',') return;
  for (Thread item : items_of(thread.stack)) {
    if (is_first) {
      step(item);
    } else {
      out_.push_back(item);
    }
  }
}

bool ThreadStepper::may_count(const ArrayForm& array, size_t place, uint32_t count,
                              uint32_t n_needed) {
  for (; n_needed > 0; ++place) {
    if (place >= array.max) return false;
    const bool is_rest = place >= array.first.size();
    const auto& items = is_rest ? array.rest : array.first[place];
    const bool counts = std::ranges::any_of(items, [&](const ArrayForm::Item& item) {
      return (item.counts >> count & 1) != 0 && m_.parts_->node(item.value).productive;
    });
    if (is_rest) return counts && n_needed <= array.max - place;
    if (counts) --n_needed;
  }
  return true;
}

std::vector<Thread> ThreadStepper::items_of(uint32_t stack) {
  const Frame top = m_.frame(stack);
  if (top.kind == Frame::kUnique) return unique_items_of(stack);
  const ArrayForm& array = m_.parts_->arrays[top.a];
  const auto list = m_.lists_.get(top.b);
  const std::vector<uint32_t> before(list.begin(), list.end());
  std::vector<Thread> made;
  if (before[0] >= array.max) return made;
  const uint32_t place = before[0];
  const auto& items = place < array.first.size() ? array.first[place] : array.rest;
  for (const ArrayForm::Item& item : items) {
    if (!m_.parts_->node(item.value).productive) continue;
    std::vector<uint32_t> after = before;
    const bool counts_on = array.max != RegularPool::kUnbounded ||
                           place < std::max<size_t>(array.first.size(), array.min);
    if (counts_on) ++after[0];
    bool possible = true;
    bool tells = item.counts == 0;  // of a count that still matters
    for (size_t c = 0; c < array.counts.size(); ++c) {
      const auto [min, max] = array.counts[c];
      const bool adds = (item.counts >> c & 1) != 0;
      if (adds && (max != RegularPool::kUnbounded || before[1 + c] < min)) {
        ++after[1 + c];
        tells = true;
      }
      const uint32_t n_needed = after[1 + c] < min ? min - after[1 + c] : 0;
      possible &= after[1 + c] <= max &&
                  may_count(array, size_t{place} + 1, static_cast<uint32_t>(c), n_needed);
    }
    if (!possible || !tells) continue;
    const uint32_t around = m_.push({Frame::kArray, top.a, m_.lists_.put(after), top.parent});
    made.push_back({.kind = Thread::kEnter,
                    .stack = around,
                    .expr = static_cast<uint32_t>(item.value),
                    .left = max_run_});
  }
  return made;
}

// An item of the array is read: its frame with one more. Kind and text are kept for what follows.
uint32_t ThreadStepper::taken_stack(uint32_t stack, UniqueKind kind, uint32_t text) {
  const Frame top = m_.frame(stack);
  const auto before = m_.lists_.get(top.b);
  std::vector<uint32_t> list(before.begin(), before.end());
  const ArrayForm& array = m_.parts_->arrays[top.a];
  if (array.max != RegularPool::kUnbounded || list[0] < array.min) ++list[0];
  std::vector<std::array<uint32_t, 2>> taken = {{static_cast<uint32_t>(kind), text}};
  for (size_t i = 1; i + 1 < list.size(); i += 2) taken.push_back({list[i], list[i + 1]});
  std::ranges::sort(taken);
  list.resize(1);
  for (const auto& [its_kind, its_text] : taken) list.insert(list.end(), {its_kind, its_text});
  return m_.push({Frame::kUnique, top.a, m_.lists_.put(list), top.parent});
}

std::vector<Thread> ThreadStepper::unique_items_of(uint32_t stack) {
  const Frame top = m_.frame(stack);
  const ArrayForm& array = m_.parts_->arrays[top.a];
  const auto its = m_.lists_.get(top.b);
  const std::vector<uint32_t> list(its.begin(), its.end());
  std::vector<Thread> made;
  if (list[0] >= array.max) return made;
  std::vector<std::u32string> strings;
  std::vector<Regular> numbers = {array.unique->numbers};
  std::vector<std::string> words;
  for (size_t i = 1; i + 1 < list.size(); i += 2) {
    if (list[i + 1] == Machine::kForgotten) {
      m_.asked_for_forgotten_ = true;
      continue;
    }
    const std::u32string text = m_.text_of(list[i + 1]);
    if (UniqueKind{list[i]} == UniqueKind::kString) {
      strings.push_back(text);
      continue;
    }
    const std::string ascii(text.begin(), text.end());
    words.push_back(ascii);
    if (const auto number = Decimal::parse(ascii)) {
      numbers.push_back(
          pool_.compared(*number, DecimalComparison::kLess | DecimalComparison::kGreater));
    }
  }
  const auto add = [&](Thread::Kind kind, Regular expr) {
    if (!pool_.is_alive(expr)) return;
    made.push_back({.kind = kind,
                    .stack = stack,
                    .expr = static_cast<uint32_t>(expr),
                    .text = 1,
                    .left = list[0] == 0 ? 0 : max_run_});
  };
  add(Thread::kStringOpen, pool_.difference(array.unique->strings, pool_.one_of(strings)));
  add(Thread::kText, pool_.intersection(numbers));
  const auto add_word = [&](bool is_possible, std::string_view word) {
    if (!is_possible || std::ranges::find(words, word) != words.end()) return;
    add(Thread::kText, pool_.literal(std::u32string(word.begin(), word.end())));
  };
  add_word(array.unique->null, "null");
  add_word(array.unique->true_, "true");
  add_word(array.unique->false_, "false");
  return made;
}

}  // namespace kvik::grammar
