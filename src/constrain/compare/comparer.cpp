#include "constrain/compare/comparer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "constrain/number_syntax.h"

namespace kvik::constrain {
namespace {

constexpr uint32_t kForgotten = ~uint32_t{0};
constexpr int kMaxPowerOfTen = 289;  // the limit of bounded_number_syntax()

void insert_sorted(std::vector<uint32_t>& values, uint32_t value) {
  const auto at = std::ranges::lower_bound(values, value);
  if (at == values.end() || *at != value) values.insert(at, value);
}

// Returns a copy of an object's record with one more property.
std::vector<uint32_t> with_member(std::span<const uint32_t> record, uint32_t name, uint32_t value) {
  std::vector<uint32_t> made(record.begin(), record.end());
  size_t at = 0;
  while (at < made.size() && made[at] < name) at += 2;
  made.insert(made.begin() + static_cast<ptrdiff_t>(at), {name, value});
  return made;
}

}  // namespace

bool Comparer::Candidates::has(uint32_t value) const {
  return std::ranges::find(values, value) != values.end();
}

uint32_t Comparer::put_rule(ValueRule mode, Values values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  values.insert(values.begin(), static_cast<uint32_t>(mode));
  return m_.lists_.put(values);
}

ValueRule Comparer::mode_of(uint32_t rule) const { return ValueRule{m_.lists_.get(rule)[0]}; }

std::span<const uint32_t> Comparer::values_of(uint32_t rule) const {
  return m_.lists_.get(rule).subspan(1);
}

std::span<const uint32_t> Comparer::parts_of(uint32_t value) const {
  return m_.lists_.get(value).subspan(1);
}

ValueKind Comparer::kind_of(uint32_t value) const { return ValueKind{m_.lists_.get(value)[0]}; }

std::optional<uint32_t> Comparer::member(uint32_t value, uint32_t name) const {
  const auto members = parts_of(value);
  for (size_t i = 0; i + 1 < members.size(); i += 2) {
    if (members[i] == name) return members[i + 1];
  }
  return {};
}

Comparer::Candidates Comparer::candidates(ValueKind kind, const Memory& memory) const {
  Candidates found;
  const auto record = m_.lists_.get(memory.record);
  found.are_unsure = std::ranges::find(record, kForgotten) != record.end();
  for (const uint32_t value : values_of(memory.rule)) {
    if (value == kForgotten) {
      found.are_unsure = true;
      found.values.push_back(value);
      continue;
    }
    if (kind_of(value) != kind || parts_of(value).size() < record.size()) continue;
    bool agrees = true;
    if (kind == ValueKind::kArray) {
      const auto items = parts_of(value);
      for (size_t i = 0; i < record.size() && agrees; ++i) {
        agrees = record[i] == kForgotten || record[i] == items[i];
      }
    } else {
      for (size_t i = 0; i + 1 < record.size() && agrees; i += 2) {
        if (record[i] == kForgotten) continue;
        const auto member_value = member(value, record[i]);
        agrees = member_value && (record[i + 1] == kForgotten || record[i + 1] == *member_value);
      }
    }
    if (agrees) found.values.push_back(value);
  }
  return found;
}

bool Comparer::exceeds(const SomeValues& some, const Values& values) {
  if (some.are_many) return true;
  size_t n_beyond = 0;
  for (const uint32_t value : some.all) {
    n_beyond += static_cast<size_t>(std::ranges::find(values, value) == values.end());
  }
  const auto n_unknown = static_cast<size_t>(std::ranges::count(values, kForgotten));
  if (n_beyond > 0 && n_beyond <= n_unknown) ask();
  return n_beyond > 0;
}

Memory Comparer::empty_memory(std::span<const uint32_t> list, uint32_t rule) {
  Memory memory;
  memory.list = m_.lists_.put(list);
  memory.record = m_.lists_.put({});
  memory.rule = rule;
  memory.next_rule = put_rule(ValueRule::kNone, {});
  return memory;
}

uint32_t Comparer::rule_for(uint32_t stack, ValueKind kind) {
  if (!m_.is_compared(stack)) return put_rule(ValueRule::kNone, {});
  const uint32_t rule = m_.memory_of(m_.frame(stack)).next_rule;
  Values kept;
  for (const uint32_t value : values_of(rule)) {
    if (value == kForgotten || kind_of(value) == kind) kept.push_back(value);
  }
  return put_rule(mode_of(rule), std::move(kept));
}

// Returns the texts of a number that is too large or too small for Decimal: the given mantissa in
// any spelling, followed by the given exponent.
Regular Comparer::with_exponent(std::string_view text) {
  const size_t e = text.find('e');
  const std::string_view written = text.substr(0, e);
  std::string_view exponent = text.substr(e + 1);
  const bool is_below_zero = exponent.starts_with('-');
  if (is_below_zero || exponent.starts_with('+')) exponent.remove_prefix(1);
  const auto number = Decimal::parse(written);
  const auto equal = static_cast<uint32_t>(DecimalComparison::kEqual);
  const Regular mantissa =
      number ? pool_.intersection(decimal_syntax(pool_), pool_.compared(*number, equal))
             : pool_.literal(std::u32string(written.begin(), written.end()));
  const Regular minus = pool_.characters({{U'-', U'-'}});
  const Regular plus = pool_.optional(pool_.characters({{U'+', U'+'}}));
  const Regular zeros = pool_.repeat(pool_.characters({{U'0', U'0'}}), 0, RegularPool::kUnbounded);
  return pool_.sequence(std::vector<Regular>{
      mantissa, pool_.characters({{U'E', U'E'}, {U'e', U'e'}}), is_below_zero ? minus : plus, zeros,
      pool_.literal(std::u32string(exponent.begin(), exponent.end()))});
}

// Returns the texts in `expr` that denote the number `value`. Usually these are its plain decimals.
// A bounded number (up to 17 digits) may have none in `expr`; then its digits are written as a
// whole number or with a point after the first digit, each with an exponent within the bounds.
Regular Comparer::spellings(Regular expr, uint32_t value) {
  const std::string text = m_.json_of(value);
  const auto number = Decimal::parse(text);
  if (!number) return pool_.intersection(expr, with_exponent(text));
  const auto equal = static_cast<uint32_t>(DecimalComparison::kEqual);
  const Regular plain = pool_.intersection(
      std::vector<Regular>{expr, decimal_syntax(pool_), pool_.compared(*number, equal)});
  if (parts_.numbers != Numbers::kBounded || pool_.is_alive(plain)) return plain;
  const std::u32string key = m_.text_of(parts_of(value)[0]);
  const std::string written(key.begin(), key.end());
  const size_t e = written.find('e');
  if (e == std::string::npos) return plain;  // zero
  const std::string digits = written.substr(0, e);
  const int power = std::atoi(written.c_str() + e + 1);
  const int n_digits = static_cast<int>(digits.size()) - (number->negative ? 1 : 0);
  std::vector<Regular> either;
  for (const int shift : {0, 1 - n_digits, std::max(power - kMaxPowerOfTen, 0),
                          std::min(power + kMaxPowerOfTen, 0)}) {
    const auto mantissa = Decimal::parse(fmt::format("{}e{}", digits, shift));
    if (!mantissa) continue;
    either.push_back(with_exponent(fmt::format("{}e{}", mantissa->text(), power - shift)));
  }
  return pool_.intersection(expr, pool_.choice(either));
}

// Restricts `expr`, a set of words and numbers, to the texts that the rule allows. Numbers are
// restricted to plain decimals if the rule names any.
Regular Comparer::text_rule(Regular expr, uint32_t rule) {
  const ValueRule mode = mode_of(rule);
  std::vector<std::u32string> words;
  std::vector<Regular> numbers = {decimal_syntax(pool_)};
  bool has_number = false;
  const auto differs =
      static_cast<uint32_t>(DecimalComparison::kLess | DecimalComparison::kGreater);
  std::vector<Regular> either;
  const auto allowed = values_of(rule);
  for (const uint32_t value : Values(allowed.begin(), allowed.end())) {
    if (value == kForgotten) continue;
    const ValueKind kind = kind_of(value);
    if (kind != ValueKind::kWord && kind != ValueKind::kNumber) continue;
    const std::string text = m_.json_of(value);
    if (kind == ValueKind::kWord) {
      words.emplace_back(text.begin(), text.end());
    } else if (mode == ValueRule::kSome) {
      either.push_back(spellings(expr, value));
    } else {
      has_number = true;
      if (const auto number = Decimal::parse(text)) {
        numbers.push_back(pool_.compared(*number, differs));
      }
    }
  }
  if (mode == ValueRule::kSome) {
    either.push_back(pool_.one_of(words));
    return pool_.intersection(expr, pool_.choice(either));
  }
  const Regular all_words = pool_.one_of({U"null", U"true", U"false"});
  if (!words.empty()) expr = pool_.difference(expr, pool_.one_of(words));
  if (!has_number) return expr;
  return pool_.intersection(expr, pool_.choice(all_words, pool_.intersection(numbers)));
}

// Returns the numbers of `expr` that have an exponent, if the rule excludes numbers. Whether such a
// number equals an excluded one is known only at its end, and one more digit always makes it a
// different number. Bounded numbers have no room for another digit, so the result is empty for
// them.
Regular Comparer::number_rule(Regular expr, uint32_t rule) {
  if (parts_.numbers == Numbers::kBounded) return Regular::kNothing;
  const auto allowed = values_of(rule);
  const bool has_number = std::ranges::any_of(allowed, [&](uint32_t value) {
    return value != kForgotten && kind_of(value) == ValueKind::kNumber;
  });
  if (!has_number || mode_of(rule) != ValueRule::kNone) return Regular::kNothing;
  const Regular words = pool_.one_of({U"null", U"true", U"false"});
  const Regular any = pool_.any_text();
  const Regular zero =
      pool_.sequence(pool_.repeat(pool_.characters({{U'-', U'-'}, {U'.', U'.'}, {U'0', U'0'}}), 1,
                                  RegularPool::kUnbounded),
                     pool_.sequence(pool_.characters({{U'E', U'E'}, {U'e', U'e'}}), any));
  return pool_.intersection(std::vector<Regular>{expr, number_syntax(pool_),
                                                 pool_.complement(decimal_syntax(pool_)),
                                                 pool_.complement(words), pool_.complement(zero)});
}

// Returns whether some object or array of this node satisfies the rule.
bool Comparer::has_one(uint32_t node, ValueKind kind, uint32_t rule) {
  const NodeParts& n = parts_.nodes[node];
  const auto allowed = values_of(rule);
  const Values values(allowed.begin(), allowed.end());
  if (values.empty()) return mode_of(rule) == ValueRule::kNone;
  if (mode_of(rule) == ValueRule::kSome) {
    return std::ranges::any_of(values, [&](uint32_t value) { return takes(Node{node}, value); });
  }
  const bool is_object = kind == ValueKind::kObject;
  const size_t n_words =
      is_object ? parts_.objects[n.a].n_head() : 1 + parts_.arrays[n.a].counts.size();
  const Begun begun{n.a, m_.lists_.put(std::vector<uint32_t>(n_words)), {}};
  const size_t most = values.size() + 1;
  return exceeds(is_object ? of_object(begun, most) : of_array(begun, most), values);
}

void Comparer::begin(uint32_t node, uint32_t stack, std::vector<Thread>& threads) {
  const NodeParts& n = parts_.nodes[node];
  const Memory memory = m_.memory_of(m_.frame(stack));
  const uint32_t rule = memory.next_rule;
  const auto allowed = values_of(rule);
  const bool has_unknown = std::ranges::find(allowed, kForgotten) != allowed.end();
  switch (n.kind) {
    case NodeKind::kText: {
      if (has_unknown) ask();
      const Regular plain = text_rule(Regular{n.a}, rule);
      if (pool_.is_alive(plain)) {
        threads.push_back({.kind = Thread::kText,
                           .stack = stack,
                           .expr = static_cast<uint32_t>(plain),
                           .text = 1});
      }
      const Regular others = number_rule(Regular{n.a}, rule);
      if (!pool_.is_alive(others)) return;
      threads.push_back({.kind = Thread::kText,
                         .stack = stack,
                         .expr = static_cast<uint32_t>(others),
                         .text = 1,
                         .low = 1});
      return;
    }
    case NodeKind::kString: {
      if (has_unknown) ask();
      std::vector<std::u32string> texts;
      for (const uint32_t value : allowed) {
        if (value == kForgotten || kind_of(value) != ValueKind::kString) continue;
        texts.push_back(m_.text_of(parts_of(value)[0]));
      }
      Regular strings{n.a};
      if (mode_of(rule) == ValueRule::kSome) {
        strings = pool_.intersection(strings, pool_.one_of(texts));
      } else if (!texts.empty()) {
        strings = pool_.difference(strings, pool_.one_of(texts));
      }
      if (!pool_.is_alive(strings)) return;
      threads.push_back({.kind = Thread::kStringOpen,
                         .stack = stack,
                         .expr = static_cast<uint32_t>(strings),
                         .text = 1});
      return;
    }
    case NodeKind::kObject:
      if (!has_one(node, ValueKind::kObject, rule_for(stack, ValueKind::kObject))) return;
      threads.push_back({.kind = Thread::kObjectOpen, .stack = stack, .expr = n.a});
      return;
    case NodeKind::kArray:
      if (!has_one(node, ValueKind::kArray, rule_for(stack, ValueKind::kArray))) return;
      threads.push_back({.kind = Thread::kArrayOpen, .stack = stack, .expr = n.a});
      return;
    default:
      return;
  }
}

std::optional<uint32_t> Comparer::with_value(uint32_t stack, uint32_t value) {
  const Frame top = m_.frame(stack);
  Memory memory = m_.memory_of(top);
  const auto rule = values_of(memory.next_rule);
  const bool is_in = value != kForgotten && std::ranges::find(rule, value) != rule.end();
  if (mode_of(memory.next_rule) == ValueRule::kNone && is_in) return {};
  const auto record = m_.lists_.get(memory.record);
  Values made(record.begin(), record.end());
  if (top.kind == Frame::kComparedObject) {
    made = with_member(made, memory.name, value);
  } else {
    made.push_back(value);
    // If the array itself is not compared with others, the order of its record does not matter, and
    // sorting makes more states equal.
    const ArrayForm& array = parts_.arrays[top.a];
    if (array.unique && !m_.is_compared(top.parent)) std::ranges::sort(made);
  }
  memory.record = m_.lists_.put(made);
  memory.name = 0;
  memory.next_rule = put_rule(ValueRule::kNone, {});
  return m_.push({top.kind, top.a, m_.put_memory(memory), top.parent});
}

bool Comparer::may_end(const Frame& frame) {
  const Memory memory = m_.memory_of(frame);
  const bool is_array = frame.kind == Frame::kComparedArray;
  const auto list = m_.lists_.get(memory.record);
  const Values record(list.begin(), list.end());
  if (is_array && parts_.arrays[frame.a].repeated && !has_repeated(record)) {
    if (std::ranges::find(record, kForgotten) == record.end()) return false;
    ask();
  }
  const ValueRule mode = mode_of(memory.rule);
  const Candidates same = candidates(is_array ? ValueKind::kArray : ValueKind::kObject, memory);
  bool is_one = false;
  for (const uint32_t value : same.values) {
    is_one |= value == kForgotten || parts_of(value).size() == record.size();
  }
  if (is_one && same.are_unsure) ask();
  return mode == ValueRule::kNone ? !is_one : is_one;
}

std::optional<uint32_t> Comparer::property_rule(uint32_t form, const Memory& memory,
                                                const Machine::Way& way, uint32_t name) {
  const Candidates all = candidates(ValueKind::kObject, memory);
  const bool is_unsure = all.are_unsure || name == kForgotten;
  Values objects, values;
  for (const uint32_t value : all.values) {
    const auto there = value == kForgotten || name == kForgotten ? kForgotten : member(value, name);
    if (!there) continue;
    objects.push_back(value);
    values.push_back(*there);
  }
  const auto record = m_.lists_.get(memory.record);
  const Values before(record.begin(), record.end());
  if (mode_of(memory.rule) == ValueRule::kSome) {
    Values left;
    for (size_t i = 0; i < objects.size(); ++i) {
      const bool may_be =
          values[i] == kForgotten ||
          (takes(way.value, values[i]) &&
           completes_object(form, way.list, objects[i], with_member(before, name, values[i])));
      if (may_be) left.push_back(values[i]);
    }
    values = std::move(left);
    if (is_unsure) ask();
    if (values.empty()) return {};
    return put_rule(ValueRule::kSome, values);
  }
  if (objects.empty()) return put_rule(ValueRule::kNone, {});
  const auto rest = [&](uint32_t value, size_t n) {
    return of_object({form, way.list, with_member(before, name, value)}, n);
  };
  if (rest(kForgotten, objects.size() + 1).are_many) return put_rule(ValueRule::kNone, {});
  if (is_unsure) {
    ask();
    return put_rule(ValueRule::kNone, {});
  }
  Values not_these;
  for (size_t i = 0; i < objects.size(); ++i) {
    Values alike;
    for (size_t j = 0; j < objects.size(); ++j) {
      if (values[j] == values[i]) alike.push_back(objects[j]);
    }
    if (!exceeds(rest(values[i], alike.size() + 1), alike)) insert_sorted(not_these, values[i]);
  }
  if (!not_these.empty() && !exceeds(of_node(way.value, not_these.size() + 1), not_these)) {
    return {};
  }
  return put_rule(ValueRule::kNone, std::move(not_these));
}

std::optional<Machine::KeyChoice> Comparer::key_choice(uint32_t form, const Memory& memory) {
  const Candidates all = candidates(ValueKind::kObject, memory);
  const bool is_some = mode_of(memory.rule) == ValueRule::kSome;
  if (all.values.empty() && !is_some) return {};
  Machine::KeyChoice made = m_.choice_in_order(form, memory.list);
  if (all.are_unsure) ask();
  const Frame frame{Frame::kComparedObject, form, m_.put_memory(memory), 0};
  made.can_close = made.can_close && may_end(frame);
  Values names;
  for (const uint32_t value : all.values) {
    if (value == kForgotten) continue;
    const auto members = parts_of(value);
    for (size_t i = 0; i + 1 < members.size(); i += 2) insert_sorted(names, members[i]);
  }
  const auto record = m_.lists_.get(memory.record);
  for (size_t i = 0; i + 1 < record.size(); i += 2) std::erase(names, record[i]);
  const ObjectParts& object = parts_.objects[form];
  std::vector<uint32_t> allowed(made.allowed.size());
  // the texts of `names`, by index of `others`
  std::vector<std::vector<std::u32string>> others(object.others.size());
  std::vector<std::vector<std::u32string>> possible(object.others.size());
  std::vector<uint32_t> property_places;
  for (const uint32_t name : names) {
    const std::u32string text = m_.text_of(name);
    Machine::PropertyName property{true, 0, name};
    const auto found = std::ranges::lower_bound(object.names, text);
    if (found != object.names.end() && *found == text) {
      property.place = static_cast<uint32_t>(found - object.names.begin());
      property_places.push_back(property.place);
      if (!has_bit(made.allowed, property.place)) continue;
    } else {
      const auto kind = std::ranges::find_if(made.kinds, [&](const auto& one) {
        return pool_.accepts_empty(pool_.step(one.second, text));
      });
      if (kind == made.kinds.end()) continue;
      property.is_named = false;
      property.place = kind->first;
      others[property.place].push_back(text);
    }
    const auto ways = m_.property_ways(form, memory.list, property);
    const bool may_be = std::ranges::any_of(ways, [&](const Machine::Way& way) {
      return property_rule(form, memory, way, name).has_value();
    });
    if (!may_be) continue;
    if (property.is_named) {
      set_bit(allowed, property.place);
    } else {
      possible[property.place].push_back(text);
    }
  }
  if (!is_some) {
    // A name that occurs in none of the excluded values remains allowed.
    std::vector<uint32_t> named(made.allowed.size());
    for (const uint32_t place : property_places) set_bit(named, place);
    for (size_t w = 0; w < allowed.size(); ++w) allowed[w] |= made.allowed[w] & ~named[w];
  }
  made.allowed = std::move(allowed);
  std::vector<std::pair<uint32_t, Regular>> kinds;
  for (const auto& [kind, texts] : made.kinds) {
    Regular left = pool_.one_of(possible[kind]);
    if (!is_some) left = pool_.choice(left, pool_.difference(texts, pool_.one_of(others[kind])));
    if (pool_.is_alive(left)) kinds.emplace_back(kind, left);
  }
  made.kinds = std::move(kinds);
  made.others = m_.join_kinds(made.kinds);
  made.can_open = made.others != Regular::kNothing ||
                  std::ranges::any_of(made.allowed, [](uint32_t word) { return word != 0; });
  return made;
}

}  // namespace kvik::constrain
