#include "text/grammar/machine.h"

namespace kvik::grammar {

uint32_t Machine::copy_text(const Machine& from, uint32_t text) {
  if (text == kForgotten) return text;
  std::vector<char32_t> characters;
  for (; text > 1; text = from.texts_.items[text].parent) {
    characters.push_back(from.texts_.items[text].last);
  }
  uint32_t made = text;
  for (size_t i = characters.size(); i-- > 0;) made = texts_.put({made, characters[i]});
  return made;
}

uint32_t Machine::copy_stack(const Machine& from, uint32_t stack) {
  std::vector<Frame> frames;
  for (; stack != 0; stack = from.frame(stack).parent) frames.push_back(from.frame(stack));
  uint32_t made = 0;
  for (size_t i = frames.size(); i-- > 0;) {
    Frame frame = frames[i];
    frame.parent = made;
    if (frame.kind == Frame::kObject || frame.kind == Frame::kArray ||
        frame.kind == Frame::kUnique) {
      const auto its = from.lists_.get(frame.b);
      std::vector<uint32_t> list(its.begin(), its.end());
      // Texts are numbers of their machine.
      if (frame.kind == Frame::kObject) {
        const size_t first = parts_->objects[frame.a].n_head();
        for (size_t w = first; w < list.size(); ++w) list[w] = copy_text(from, list[w]);
        std::sort(list.begin() + static_cast<ptrdiff_t>(first), list.end());
      } else if (frame.kind == Frame::kUnique) {
        for (size_t w = 2; w < list.size(); w += 2) list[w] = copy_text(from, list[w]);
      }
      frame.b = lists_.put(list);
    }
    made = push(frame);
  }
  return made;
}

State Machine::copy_state(const Machine& from, State state) {
  const std::span<const Thread> its = from.threads(state);
  std::vector<Thread> copy(its.begin(), its.end());
  for (Thread& thread : copy) {
    thread.stack = copy_stack(from, thread.stack);
    thread.text = copy_text(from, thread.text);
    if (thread.kind == Thread::kText || thread.kind == Thread::kString ||
        thread.kind == Thread::kStringOpen || thread.kind == Thread::kKey) {
      thread.expr = static_cast<uint32_t>(pool_.copy(from.pool_, Regular{thread.expr}));
    }
  }
  return intern(copy);
}

}  // namespace kvik::grammar
