#include "text/grammar/thread_stepper.h"

#include <algorithm>

#include "text/grammar/string_cursor.h"

namespace kvik::grammar {
namespace {

using Cursor = CharacterCursor;

enum UniqueKind : uint32_t { kUniqueString, kUniqueOther };

bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

void set_byte(Machine::ByteSet& set, uint32_t byte) {
  set[byte / 64] |= uint64_t{1} << (byte % 64);
}

void set_bytes(Machine::ByteSet& set, uint32_t first, uint32_t last) {
  for (uint32_t byte = first; byte <= last; ++byte) set_byte(set, byte);
}

}  // namespace

const ObjectParts& ThreadStepper::object_of(uint32_t stack) const {
  return m_.parts_->objects[m_.frame(stack).a];
}

const Machine::KeyChoice& ThreadStepper::keys_of(uint32_t stack) {
  const Frame frame = m_.frame(stack);
  return m_.key_choice(frame.a, frame.b);
}

bool ThreadStepper::takes_blank(const Thread& thread) {
  if (thread.left == 0 || !is_blank(byte_)) return false;
  Thread next = thread;
  --next.left;
  out_.push_back(next);
  return true;
}

void ThreadStepper::complete(uint32_t stack) {
  const Machine::Closure& closure = m_.closure_of_stack(stack);
  out_.insert(out_.end(), closure.threads.begin(), closure.threads.end());
  if (closure.done) out_.push_back({});
}

bool ThreadStepper::may_continue(Regular expr, uint32_t partial) {
  return std::ranges::any_of(Cursor::may_become(partial), [&](const auto& range) {
    return range.first <= range.last && pool_.any_step(expr, range.first, range.last);
  });
}

uint32_t ThreadStepper::longer_text(uint32_t text, char32_t c) {
  if (text == 0 || text == Machine::kForgotten) return text;
  return m_.texts_.put({text, c});
}

void ThreadStepper::step(const Thread& thread) {
  switch (thread.kind) {
    case Thread::kEnter: {
      if (takes_blank(thread)) return;
      const std::vector<Thread> ready = m_.closure_of(thread.expr, thread.stack).threads;
      for (const Thread& next : ready) step(next);
      return;
    }
    case Thread::kText:
      return step_text(thread);
    case Thread::kStringOpen:
      if (takes_blank(thread) || byte_ != '"') return;
      out_.push_back({.kind = Thread::kString,
                      .stack = thread.stack,
                      .expr = thread.expr,
                      .text = thread.text});
      return;
    case Thread::kString:
      return step_string(thread);
    case Thread::kKey:
      return step_key(thread);
    case Thread::kObjectOpen:
      return open_object(thread);
    case Thread::kFirstKey:
    case Thread::kNextKey:
      if (takes_blank(thread)) return;
      if (byte_ == '"' && keys_of(thread.stack).can_open) open_key(thread.stack);
      if (byte_ == '}' && thread.kind == Thread::kFirstKey && keys_of(thread.stack).can_close) {
        complete(m_.frame(thread.stack).parent);
      }
      return;
    case Thread::kColon:
      if (takes_blank(thread) || byte_ != ':') return;
      out_.push_back(
          {.kind = Thread::kEnter, .stack = thread.stack, .expr = thread.expr, .left = max_run_});
      return;
    case Thread::kAfterValue:
      if (takes_blank(thread)) return;
      if (byte_ == ',' && keys_of(thread.stack).can_open) {
        out_.push_back({.kind = Thread::kNextKey, .stack = thread.stack, .left = max_run_});
      }
      if (byte_ == '}' && keys_of(thread.stack).can_close) complete(m_.frame(thread.stack).parent);
      return;
    case Thread::kArrayOpen:
      return open_array(thread);
    case Thread::kFirstItem:
    case Thread::kAfterItem:
      return step_array(thread);
    default:
      return;
  }
}

void ThreadStepper::step_text(const Thread& thread) {
  const Regular expr{thread.expr};
  if (thread.partial == 0 && pool_.accepts_empty(expr)) {
    const uint32_t stack =
        thread.text == 0 ? thread.stack : taken_stack(thread.stack, kUniqueOther, thread.text);
    const std::vector<Thread> behind = m_.closure_of_stack(stack).threads;
    for (const Thread& next : behind) step(next);
  }
  if (takes_blank(thread)) return;
  const Cursor::Step read = Cursor::step_plain(thread.partial, byte_);
  Thread next = thread;
  next.left = 0;
  if (read.kind == Cursor::Kind::kInside) {
    if (!may_continue(expr, read.partial)) return;
    next.partial = read.partial;
    out_.push_back(next);
  } else if (read.kind == Cursor::Kind::kCharacter) {
    const Regular to = pool_.step(expr, read.code_point);
    if (to == Regular::kNothing) return;
    next.expr = static_cast<uint32_t>(to);
    next.partial = 0;
    next.text = longer_text(thread.text, read.code_point);
    out_.push_back(next);
  }
}

void ThreadStepper::step_string(const Thread& thread) {
  const Regular expr{thread.expr};
  const Cursor::Step read = Cursor::step_string(thread.partial, byte_);
  Thread next = thread;
  switch (read.kind) {
    case Cursor::Kind::kInvalid:
      return;
    case Cursor::Kind::kInside:
      if (!may_continue(expr, read.partial)) return;
      next.partial = read.partial;
      break;
    case Cursor::Kind::kCharacter: {
      const Regular to = pool_.step(expr, read.code_point);
      if (to == Regular::kNothing) return;
      next.expr = static_cast<uint32_t>(to);
      next.partial = 0;
      next.text = longer_text(thread.text, read.code_point);
      break;
    }
    case Cursor::Kind::kQuote:
      if (!pool_.accepts_empty(expr)) return;
      complete(thread.text == 0 ? thread.stack
                                : taken_stack(thread.stack, kUniqueString, thread.text));
      return;
  }
  out_.push_back(next);
}

void ThreadStepper::open_key(uint32_t stack) {
  const ObjectParts& object = object_of(stack);
  out_.push_back({.kind = Thread::kKey,
                  .stack = stack,
                  .expr = static_cast<uint32_t>(keys_of(stack).others),
                  .text = object.others.empty() ? 0u : 1u,
                  .low = 0,
                  .high = static_cast<uint32_t>(object.names.size())});
}

// Leaves the names whose next character is from `first` to `last`; false where none of them may be.
bool ThreadStepper::narrow(Thread& key, char32_t first, char32_t last) {
  const std::vector<std::u32string>& names = object_of(key.stack).names;
  const auto next = [&](const std::u32string& name) -> int64_t {
    return name.size() > key.depth ? static_cast<int64_t>(name[key.depth]) : -1;
  };
  const auto begin = names.begin() + key.low, end = names.begin() + key.high;
  const auto low = std::ranges::lower_bound(begin, end, static_cast<int64_t>(first), {}, next);
  const auto high = std::ranges::upper_bound(low, end, static_cast<int64_t>(last), {}, next);
  key.low = static_cast<uint32_t>(low - names.begin());
  key.high = static_cast<uint32_t>(high - names.begin());
  const std::vector<uint32_t>& allowed = keys_of(key.stack).allowed;
  for (uint32_t i = key.low; i < key.high; ++i) {
    if (has_bit(allowed, i)) return true;
  }
  return false;
}

void ThreadStepper::step_key(const Thread& thread) {
  const Regular expr{thread.expr};
  const Cursor::Step read = Cursor::step_string(thread.partial, byte_);
  Thread next = thread;
  if (read.kind == Cursor::Kind::kInvalid) return;
  if (read.kind == Cursor::Kind::kQuote) return end_key(thread);
  if (read.kind == Cursor::Kind::kInside) {
    const bool named = std::ranges::any_of(Cursor::may_become(read.partial), [&](const auto& r) {
      Thread narrowed = thread;
      return r.first <= r.last && narrow(narrowed, r.first, r.last);
    });
    if (!named && !may_continue(expr, read.partial)) return;
    next.partial = read.partial;
  } else {
    const Regular to = pool_.step(expr, read.code_point);
    if (narrow(next, read.code_point, read.code_point)) {
      ++next.depth;
    } else {
      if (to == Regular::kNothing) return;
      next.low = next.high = next.depth = 0;
    }
    next.expr = static_cast<uint32_t>(to);
    next.partial = 0;
    next.text = longer_text(thread.text, read.code_point);
  }
  out_.push_back(next);
}

void ThreadStepper::end_key(const Thread& key) {
  const Frame top = m_.frame(key.stack);
  const ObjectParts& object = m_.parts_->objects[top.a];
  const Machine::KeyChoice& choice = m_.key_choice(top.a, top.b);
  const auto before = m_.lists_.get(top.b);
  std::vector<uint32_t> list(before.begin(), before.end());
  Node value = Node::kNothing;
  const std::vector<ObjectForm::Witness>* also = nullptr;
  if (key.low < key.high && object.names[key.low].size() == key.depth &&
      has_bit(choice.allowed, key.low)) {
    set_bit(std::span(list).subspan(1), key.low);
    value = object.values[key.low];
    also = &object.also[key.low];
  } else {
    const std::vector<uint32_t> marks = pool_.marks(Regular{key.expr});
    if (marks.empty()) return;
    const ObjectForm::Others& others = object.others[marks.front()];
    value = others.value;
    also = &others.also;
    const auto names = list.begin() + static_cast<ptrdiff_t>(object.n_head());
    list.insert(std::upper_bound(names, list.end(), key.text), key.text);
  }
  if (object.max != RegularPool::kUnbounded || list[0] < object.min) ++list[0];
  const auto read = [&](Node its) {
    const uint32_t number = m_.lists_.put(list);
    if (object.n_witnesses > 0) {
      const Machine::KeyChoice& next = m_.key_choice(top.a, number);
      if ((!next.can_close && !next.can_open) || !m_.parts_->node(its).productive) return;
    }
    const uint32_t stack = m_.push({Frame::kObject, top.a, number, top.parent});
    out_.push_back({.kind = Thread::kColon,
                    .stack = stack,
                    .expr = static_cast<uint32_t>(its),
                    .left = max_run_});
  };
  read(value);
  for (const auto& [its, is] : *also) {
    uint32_t& witnesses = list[1 + object.n_words()];
    const uint32_t had = witnesses;
    if ((had | is) == had) continue;  // as any other value
    witnesses |= is;
    read(its);
    list[1 + object.n_words()] = had;
  }
}

void ThreadStepper::open_object(const Thread& thread) {
  if (byte_ != '{') return;
  const ObjectParts& object = m_.parts_->objects[thread.expr];
  const std::vector<uint32_t> none(object.n_head());
  const uint32_t stack = m_.push({Frame::kObject, thread.expr, m_.lists_.put(none), thread.stack});
  out_.push_back({.kind = Thread::kFirstKey, .stack = stack, .left = max_run_});
}

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
uint32_t ThreadStepper::taken_stack(uint32_t stack, uint32_t kind, uint32_t text) {
  const Frame top = m_.frame(stack);
  const auto before = m_.lists_.get(top.b);
  std::vector<uint32_t> list(before.begin(), before.end());
  const ArrayForm& array = m_.parts_->arrays[top.a];
  if (array.max != RegularPool::kUnbounded || list[0] < array.min) ++list[0];
  std::vector<std::array<uint32_t, 2>> taken = {{kind, text}};
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
    if (list[i] == kUniqueString) {
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

void ThreadStepper::add_first(const Thread& thread, Machine::ByteSet& first) {
  if (thread.left > 0) {
    for (const char c : {' ', '\n', '\t', '\r'}) set_byte(first, static_cast<uint8_t>(c));
  }
  const auto add_expression = [&](Regular expr, uint32_t least) {
    const RegularPool::Next next = pool_.next(expr);
    for (uint32_t c = least; c < 0x80; ++c) {
      if ((next.ascii[c / 64] >> (c % 64) & 1) != 0) set_byte(first, c);
    }
    if (next.beyond) set_bytes(first, 0xC2, 0xF4);
  };
  switch (thread.kind) {
    case Thread::kEnter: {
      const std::vector<Thread> ready = m_.closure_of(thread.expr, thread.stack).threads;
      for (const Thread& next : ready) add_first(next, first);
      return;
    }
    case Thread::kText: {
      if (thread.partial != 0) return set_bytes(first, 0x80, 0xBF);
      add_expression(Regular{thread.expr}, 0);
      if (!pool_.accepts_empty(Regular{thread.expr})) return;
      const uint32_t stack =
          thread.text == 0 ? thread.stack : taken_stack(thread.stack, kUniqueOther, thread.text);
      const std::vector<Thread> behind = m_.closure_of_stack(stack).threads;
      for (const Thread& next : behind) add_first(next, first);
      return;
    }
    case Thread::kStringOpen:
      return set_byte(first, '"');
    case Thread::kString:
    case Thread::kKey: {
      if (thread.partial != 0) {
        if (!Cursor::is_escape(thread.partial)) return set_bytes(first, 0x80, 0xBF);
        return set_bytes(first, 0x20, 0x7E);
      }
      add_expression(Regular{thread.expr}, 0x20);
      set_byte(first, '\\');
      set_byte(first, '"');
      if (thread.kind == Thread::kString) return;
      const std::vector<std::u32string>& names = object_of(thread.stack).names;
      for (uint32_t i = thread.low; i < thread.high; ++i) {
        if (names[i].size() <= thread.depth) continue;
        const char32_t c = names[i][thread.depth];
        if (c < 0x80) {
          set_byte(first, c);
        } else {
          set_bytes(first, 0xC2, 0xF4);
        }
      }
      return;
    }
    case Thread::kObjectOpen:
      return set_byte(first, '{');
    case Thread::kFirstKey:
      set_byte(first, '}');
      return set_byte(first, '"');
    case Thread::kNextKey:
      return set_byte(first, '"');
    case Thread::kColon:
      return set_byte(first, ':');
    case Thread::kAfterValue:
      set_byte(first, ',');
      return set_byte(first, '}');
    case Thread::kArrayOpen:
      return set_byte(first, '[');
    case Thread::kAfterItem:
      set_byte(first, ',');
      return set_byte(first, ']');
    case Thread::kFirstItem: {
      set_byte(first, ']');
      for (const Thread& item : items_of(thread.stack)) add_first(item, first);
      return;
    }
    default:
      return;
  }
}

bool ThreadStepper::needs_no_escape(const Thread& thread) {
  if ((thread.kind != Thread::kString && thread.kind != Thread::kKey) || thread.partial != 0) {
    return false;
  }
  const auto may_be = [&](char32_t first, char32_t last) {
    if (pool_.any_step(Regular{thread.expr}, first, last)) return true;
    Thread copy = thread;
    return thread.kind == Thread::kKey && narrow(copy, first, last);
  };
  return !may_be(0, 0x1F) && !may_be('"', '"') && !may_be('\\', '\\');
}

}  // namespace kvik::grammar
