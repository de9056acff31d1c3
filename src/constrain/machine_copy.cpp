#include "constrain/machine.h"

namespace kvik::constrain {

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

// Copies the list of a frame, in which ids of texts are replaced by those of this machine.
uint32_t Machine::copy_list(const Machine& from, const Frame& frame, uint32_t number) {
  const auto stored = from.lists_.get(number);
  std::vector<uint32_t> list(stored.begin(), stored.end());
  if (frame.kind == Frame::kObject || frame.kind == Frame::kComparedObject) {
    const size_t first = parts_->objects[frame.a].n_head();
    for (size_t w = first; w < list.size(); ++w) list[w] = copy_text(from, list[w]);
    std::sort(list.begin() + static_cast<ptrdiff_t>(first), list.end());
  }
  return lists_.put(list);
}

// Copies the names and values of an object. The result is sorted by the new ids of the names.
std::vector<uint32_t> Machine::copy_members(const Machine& from, std::span<const uint32_t> words) {
  std::vector<std::array<uint32_t, 2>> members;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    members.push_back({copy_text(from, words[i]), copy_value(from, words[i + 1])});
  }
  std::ranges::sort(members);
  std::vector<uint32_t> copied;
  for (const auto& [name, value] : members) copied.insert(copied.end(), {name, value});
  return copied;
}

std::vector<uint32_t> Machine::copy_values(const Machine& from, std::span<const uint32_t> words) {
  std::vector<uint32_t> copied;
  for (const uint32_t value : words) copied.push_back(copy_value(from, value));
  return copied;
}

uint32_t Machine::copy_value(const Machine& from, uint32_t value) {
  if (value == kForgotten) return value;
  const auto list = from.lists_.get(value);
  const auto words = list.subspan(1);
  std::vector<uint32_t> copied;
  switch (ValueKind{list[0]}) {
    case ValueKind::kWord:
      copied = {words[0]};
      break;
    case ValueKind::kNumber:
    case ValueKind::kString:
      copied = {copy_text(from, words[0])};
      break;
    case ValueKind::kArray:
      copied = copy_values(from, words);
      break;
    case ValueKind::kObject:
      copied = copy_members(from, words);
      break;
  }
  copied.insert(copied.begin(), list[0]);
  return lists_.put(copied);
}

uint32_t Machine::copy_rule(const Machine& from, uint32_t rule) {
  const auto stored = from.lists_.get(rule);
  std::vector<uint32_t> copied = copy_values(from, stored.subspan(1));
  std::ranges::sort(copied);
  copied.insert(copied.begin(), stored[0]);
  return lists_.put(copied);
}

uint32_t Machine::copy_memory(const Machine& from, const Frame& frame) {
  Memory memory = from.memory_of(frame);
  memory.list = copy_list(from, frame, memory.list);
  const auto record = from.lists_.get(memory.record);
  memory.record = lists_.put(frame.kind == Frame::kComparedObject ? copy_members(from, record)
                                                                  : copy_values(from, record));
  memory.rule = copy_rule(from, memory.rule);
  memory.name = copy_text(from, memory.name);
  memory.next_rule = copy_rule(from, memory.next_rule);
  return put_memory(memory);
}

uint32_t Machine::copy_stack(const Machine& from, uint32_t stack) {
  std::vector<Frame> frames;
  for (; stack != 0; stack = from.frame(stack).parent) frames.push_back(from.frame(stack));
  uint32_t made = 0;
  for (size_t i = frames.size(); i-- > 0;) {
    Frame frame = frames[i];
    frame.parent = made;
    if (frame.kind == Frame::kComparedObject || frame.kind == Frame::kComparedArray) {
      frame.b = copy_memory(from, frames[i]);
    } else if (frame.kind == Frame::kObject || frame.kind == Frame::kArray) {
      frame.b = copy_list(from, frame, frame.b);
    }
    made = push(frame);
  }
  return made;
}

State Machine::copy_state(const Machine& from, State state) {
  const std::span<const Thread> stored = from.threads(state);
  std::vector<Thread> copy(stored.begin(), stored.end());
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

}  // namespace kvik::constrain
