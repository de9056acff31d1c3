#include "constrain/thread_stepper.h"

#include <algorithm>

#include "constrain/compare/comparer.h"
#include "constrain/string_cursor.h"

namespace kvik::constrain {
namespace {

using Cursor = CharacterCursor;

bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

}  // namespace

const ObjectParts& ThreadStepper::object_of(uint32_t stack) const {
  return m_.parts_->objects[m_.frame(stack).a];
}

const Machine::KeyChoice& ThreadStepper::keys_of(uint32_t stack) {
  return m_.key_choice_of(m_.frame(stack));
}

bool ThreadStepper::may_read_whitespace(const Thread& thread) {
  if (thread.left == 0 || !is_blank(byte_)) return false;
  if (thread.left == Thread::kOneSpace && byte_ != ' ') return false;
  Thread next = thread;
  next.left = thread.left == Thread::kOneSpace ? 0 : thread.left - 1;
  out_.push_back(next);
  return true;
}

void ThreadStepper::complete(uint32_t stack) {
  const Machine::Closure& closure = m_.closure_of_stack(stack);
  out_.insert(out_.end(), closure.threads.begin(), closure.threads.end());
  if (closure.done) out_.push_back({});
}

void ThreadStepper::close_container(uint32_t stack) {
  const Frame top = m_.frame(stack);
  if (!m_.is_compared(top.parent)) return complete(top.parent);
  const bool is_object = top.kind == Frame::kComparedObject;
  const auto stored = m_.lists_.get(m_.memory_of(top).record);
  const std::vector<uint32_t> record(stored.begin(), stored.end());
  const uint32_t value =
      m_.container_value(is_object ? ValueKind::kObject : ValueKind::kArray, record);
  if (const auto following = Comparer(m_).with_value(top.parent, value)) complete(*following);
}

std::optional<uint32_t> ThreadStepper::stack_after(const Thread& thread) {
  if (thread.text == 0) return thread.stack;
  if (thread.kind == Thread::kString) {
    return Comparer(m_).with_value(thread.stack, m_.string_value(thread.text));
  }
  // The decision depends on the number's value, which is not known.
  if (thread.low != 0 && thread.text == Machine::kForgotten) m_.depends_on_forgotten_ = true;
  return Comparer(m_).with_value(thread.stack, m_.plain_value(thread.text));
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
      if (may_read_whitespace(thread)) return;
      const std::vector<Thread> ready = m_.closure_of(thread.expr, thread.stack).threads;
      for (const Thread& next : ready) step_closed(next);
      return;
    }
    case Thread::kText:
      return step_text(thread);
    case Thread::kStringOpen:
      if (may_read_whitespace(thread) || byte_ != '"') return;
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
      if (may_read_whitespace(thread)) return;
      if (byte_ == '"' && keys_of(thread.stack).can_open) open_key(thread.stack);
      if (byte_ == '}' && thread.kind == Thread::kFirstKey && keys_of(thread.stack).can_close) {
        close_container(thread.stack);
      }
      return;
    case Thread::kColon:
      if (may_read_whitespace(thread) || byte_ != ':') return;
      out_.push_back({.kind = Thread::kEnter,
                      .stack = thread.stack,
                      .expr = thread.expr,
                      .left = after_mark_});
      return;
    case Thread::kAfterValue:
      if (may_read_whitespace(thread)) return;
      if (byte_ == ',' && keys_of(thread.stack).can_open) {
        out_.push_back({.kind = Thread::kNextKey, .stack = thread.stack, .left = after_mark_});
      }
      if (byte_ == '}' && keys_of(thread.stack).can_close) close_container(thread.stack);
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
  if (thread.partial == 0 && pool_.accepts_empty(Regular{thread.expr})) {
    if (const auto stack = stack_after(thread)) {
      const std::vector<Thread> following = m_.closure_of_stack(*stack).threads;
      for (const Thread& next : following) step_closed(next);
    }
  }
  read_text(thread);
}

void ThreadStepper::step_closed(const Thread& thread) {
  if (thread.kind == Thread::kText) return read_text(thread);
  step(thread);
}

void ThreadStepper::read_text(const Thread& thread) {
  const Regular expr{thread.expr};
  if (may_read_whitespace(thread)) return;
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
      if (const auto stack = stack_after(thread)) complete(*stack);
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

// Restricts the names of a key to those whose next character is from `first` to `last`. Returns
// false if no allowed name is left.
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
  Machine::PropertyName name{true, key.low, key.text};
  const bool is_named = key.low < key.high && object.names[key.low].size() == key.depth &&
                        has_bit(keys_of(key.stack).allowed, key.low);
  if (!is_named) {
    const std::vector<uint32_t> marks = pool_.marks(Regular{key.expr});
    if (marks.empty()) return;
    name = {false, marks.front(), key.text};
  }
  const auto read = [&](Node value, uint32_t b) {
    out_.push_back({.kind = Thread::kColon,
                    .stack = m_.push({top.kind, top.a, b, top.parent}),
                    .expr = static_cast<uint32_t>(value),
                    .left = max_run_});
  };
  if (top.kind == Frame::kObject) {
    for (const auto& [value, list] : m_.property_ways(top.a, top.b, name)) read(value, list);
    return;
  }
  const Memory memory = m_.memory_of(top);
  Memory next = memory;
  next.name = is_named ? m_.text_number(object.names[key.low]) : key.text;
  for (const Machine::Way& way : m_.property_ways(top.a, memory.list, name)) {
    const auto rule = Comparer(m_).property_rule(top.a, memory, way, next.name);
    if (!rule) continue;
    next.list = way.list;
    next.next_rule = *rule;
    read(way.value, m_.put_memory(next));
  }
}

uint32_t ThreadStepper::begin_container(ValueKind kind, const Thread& thread, size_t n_head,
                                        bool is_compared) {
  const bool is_object = kind == ValueKind::kObject;
  const std::vector<uint32_t> none(n_head);
  if (!is_compared) {
    return m_.push({is_object ? Frame::kObject : Frame::kArray, thread.expr, m_.lists_.put(none),
                    thread.stack});
  }
  Comparer comparer(m_);
  const uint32_t rule = comparer.rule_for(thread.stack, kind);
  return m_.push({is_object ? Frame::kComparedObject : Frame::kComparedArray, thread.expr,
                  m_.put_memory(comparer.empty_memory(none, rule)), thread.stack});
}

void ThreadStepper::open_object(const Thread& thread) {
  if (byte_ != '{') return;
  const uint32_t stack =
      begin_container(ValueKind::kObject, thread, m_.parts_->objects[thread.expr].n_head(),
                      m_.is_compared(thread.stack));
  out_.push_back({.kind = Thread::kFirstKey, .stack = stack, .left = max_run_});
}

}  // namespace kvik::constrain
