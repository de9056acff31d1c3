#include "constrain/front/rule_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace kvik::constrain {
namespace {

using Kind = Production::Kind;

void add_rules(const Production& production, std::vector<uint32_t>& rules) {
  if (production.kind == Kind::kRule) rules.push_back(production.rule);
  for (const Production& part : production.parts) add_rules(part, rules);
}

// Appends the alternatives of a production, including those of nested choices.
void add_alternatives(Production production, std::vector<Production>& all) {
  if (production.kind != Kind::kChoice) {
    all.push_back(std::move(production));
    return;
  }
  for (Production& part : production.parts) add_alternatives(std::move(part), all);
}

// Returns what follows the rule in a production that begins with it; std::nullopt for other
// productions.
std::optional<Production> after_rule(const Production& production, uint32_t rule) {
  if (production.kind == Kind::kRule && production.rule == rule) return Production();
  if (production.kind != Kind::kSequence || production.parts.empty()) return std::nullopt;
  auto first = after_rule(production.parts.front(), rule);
  if (!first) return std::nullopt;
  std::vector<Production> rest;
  rest.push_back(std::move(*first));
  rest.insert(rest.end(), production.parts.begin() + 1, production.parts.end());
  return Production::sequence(std::move(rest));
}

// Sorts rules so that each comes after the rules that it needs. Mutually dependent rules form one
// group (strongly connected components, Tarjan 1972, without recursion).
class Groups {
 public:
  explicit Groups(std::vector<std::vector<uint32_t>> needs)
      : needs_(std::move(needs)),
        index_(needs_.size(), 0),
        low_(needs_.size(), 0),
        is_open_(needs_.size(), false) {}

  std::vector<std::vector<uint32_t>> from(uint32_t start) {
    open(start);
    while (!path_.empty()) {
      auto& [rule, next] = path_.back();
      if (next < needs_[rule].size()) {
        const uint32_t needed = needs_[rule][next++];
        if (index_[needed] == 0)
          open(needed);
        else if (is_open_[needed])
          low_[rule] = std::min(low_[rule], index_[needed]);
      } else {
        close(rule);
      }
    }
    return std::move(groups_);
  }

 private:
  void open(uint32_t rule) {
    index_[rule] = low_[rule] = ++n_;
    is_open_[rule] = true;
    stack_.push_back(rule);
    path_.emplace_back(rule, 0);
  }
  void close(uint32_t rule) {
    path_.pop_back();
    if (!path_.empty()) {
      uint32_t& above = low_[path_.back().first];
      above = std::min(above, low_[rule]);
    }
    if (low_[rule] != index_[rule]) return;
    std::vector<uint32_t>& group = groups_.emplace_back();
    for (uint32_t member = rule + 1; member != rule;) {
      member = stack_.back();
      stack_.pop_back();
      is_open_[member] = false;
      group.push_back(member);
    }
  }

  const std::vector<std::vector<uint32_t>> needs_;
  std::vector<uint32_t> index_, low_;
  std::vector<bool> is_open_;
  std::vector<uint32_t> stack_;
  std::vector<std::pair<uint32_t, size_t>> path_;
  std::vector<std::vector<uint32_t>> groups_;
  uint32_t n_ = 0;
};

}  // namespace

Production Production::sequence(std::vector<Production> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kSequence, .parts = std::move(parts)};
}

Production Production::choice(std::vector<Production> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kChoice, .parts = std::move(parts)};
}

Production Production::repeat(Production part, uint32_t min, uint32_t max) {
  Production all{.kind = Kind::kRepeat, .min = min, .max = max};
  all.parts.push_back(std::move(part));
  return all;
}

uint32_t RuleSet::rule(std::string_view name, size_t line) {
  const auto [place, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<uint32_t>(rules_.size()));
  if (is_new) rules_.push_back({.name = std::string(name), .line = line});
  return place->second;
}

bool RuleSet::define(uint32_t rule, Production body) {
  if (rules_[rule].is_defined) return false;
  rules_[rule].is_defined = true;
  rules_[rule].body = std::move(body);
  return true;
}

bool RuleSet::is_defined(std::string_view name) const {
  const auto place = numbers_.find(std::string(name));
  return place != numbers_.end() && rules_[place->second].is_defined;
}

void RuleSet::replace_left_recursion(uint32_t rule) {
  std::vector<Production> all;
  add_alternatives(std::move(rules_[rule].body), all);
  std::vector<Production> first;
  std::vector<Production> more;
  for (Production& one : all) {
    if (auto rest = after_rule(one, rule))
      more.push_back(std::move(*rest));
    else
      first.push_back(std::move(one));
  }
  Production body = Production::choice(std::move(first));
  if (!more.empty()) {
    std::vector<Production> parts;
    parts.push_back(std::move(body));
    parts.push_back(
        Production::repeat(Production::choice(std::move(more)), 0, RegularPool::kUnbounded));
    body = Production::sequence(std::move(parts));
  }
  rules_[rule].body = std::move(body);
}

Node RuleSet::make(Builder& builder, const Production& production) const {
  switch (production.kind) {
    case Kind::kNode:
      return production.node;
    case Kind::kRule:
      return rules_[production.rule].node;
    default:
      break;
  }
  std::vector<Node> parts;
  parts.reserve(production.parts.size());
  for (const Production& part : production.parts) parts.push_back(make(builder, part));
  if (production.kind == Kind::kSequence) return builder.sequence(parts);
  if (production.kind == Kind::kChoice) return builder.choice(parts);
  return builder.repeat(parts.front(), production.min, production.max);
}

Result<Node> RuleSet::build(Builder& builder, uint32_t start) {
  std::vector<std::vector<uint32_t>> needs(rules_.size());
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i].is_defined)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the grammar's rule '{}', of line {}, is never defined",
                              rules_[i].name, rules_[i].line));
    replace_left_recursion(i);
    add_rules(rules_[i].body, needs[i]);
  }
  for (const std::vector<uint32_t>& group : Groups(needs).from(start)) {
    const uint32_t only = group.front();
    if (group.size() == 1 && std::ranges::find(needs[only], only) == needs[only].end()) {
      rules_[only].node = make(builder, rules_[only].body);
      continue;
    }
    for (const uint32_t rule : group) rules_[rule].node = builder.rule(rules_[rule].name);
    for (const uint32_t rule : group)
      builder.define(rules_[rule].node, make(builder, rules_[rule].body));
  }
  return rules_[start].node;
}

}  // namespace kvik::constrain
