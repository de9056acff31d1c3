#include "text/grammar/thread_stepper.h"

#include <algorithm>

#include "text/grammar/string_cursor.h"

namespace kvik::grammar {
namespace {

using Cursor = CharacterCursor;

bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

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
    const uint32_t stack = thread.text == 0
                               ? thread.stack
                               : taken_stack(thread.stack, UniqueKind::kOther, thread.text);
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
                                : taken_stack(thread.stack, UniqueKind::kString, thread.text));
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

}  // namespace kvik::grammar
