#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "constrain/finish.h"
#include "constrain/grammar.h"
#include "constrain/grammar_parts.h"
#include "constrain/number_syntax.h"

namespace kvik::constrain {

Builder::Builder(const Limits& limits, Whitespace whitespace, Numbers numbers)
    : parts_(std::make_unique<GrammarParts>(limits, whitespace, numbers)),
      is_out_of_work_(limits.is_out_of_work) {
  parts_->limits.is_out_of_work = nullptr;
  parts_->nodes.push_back({NodeKind::kNothing});
  parts_->nodes.push_back({NodeKind::kEmptyText});
}

// Reports whether a failed compilation ran out of steps. The report is made here because compile
// functions drop their Builder when they fail.
Builder::~Builder() {
  if (!parts_ || !is_out_of_work_) return;
  *is_out_of_work_ = parts_->is_out_of_work || parts_->pool.is_out_of_work();
}
Builder::Builder(Builder&&) noexcept = default;

RegularPool& Builder::regulars() { return parts_->pool; }

bool Builder::exhausted() const { return parts_->exhausted || parts_->pool.exhausted(); }

namespace {

Node add(GrammarParts& parts, NodeParts node) {
  if (parts.nodes.size() >= parts.limits.max_nodes) {
    parts.exhausted = true;
    return Node::kNothing;
  }
  parts.nodes.push_back(node);
  return Node{static_cast<uint32_t>(parts.nodes.size() - 1)};
}

}  // namespace

Node Builder::text(Regular text) {
  if (text == Regular::kNothing) return Node::kNothing;
  if (text == Regular::kEmptyText) return Node::kEmptyText;
  return add(*parts_, {NodeKind::kText, static_cast<uint32_t>(text)});
}

Node Builder::literal(std::string_view text) {
  std::u32string characters;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    CHECK(step.kind == Utf8Step::Kind::kValid);
    characters.push_back(step.code_point);
    at += step.n_bytes;
  }
  return this->text(regulars().literal(characters));
}

Node Builder::json_string(Regular meaning) {
  if (meaning == Regular::kNothing) return Node::kNothing;
  return add(*parts_, {NodeKind::kString, static_cast<uint32_t>(meaning)});
}

Node Builder::object(ObjectForm form) {
  parts_->object_forms.push_back(std::move(form));
  return add(*parts_, {NodeKind::kObject, static_cast<uint32_t>(parts_->object_forms.size() - 1)});
}

Node Builder::array(ArrayForm form) {
  CHECK(form.counts.size() <= 32);
  parts_->arrays.push_back(std::move(form));
  return add(*parts_, {NodeKind::kArray, static_cast<uint32_t>(parts_->arrays.size() - 1)});
}

Node Builder::json_value() {
  if (parts_->any_value) return *parts_->any_value;
  const Node any = rule("any JSON value");
  parts_->any_value = any;
  RegularPool& pool = regulars();
  ObjectForm any_object;
  any_object.others.push_back({pool.any_text(), any});
  ArrayForm any_array;
  any_array.rest.push_back({any});
  const Regular words = pool.one_of({U"null", U"true", U"false"});
  const Node object_node = object(std::move(any_object));
  const Node array_node = array(std::move(any_array));
  const Regular numbers =
      parts_->numbers == Numbers::kBounded ? bounded_number_syntax(pool) : number_syntax(pool);
  define(any, choice(std::array{text(pool.choice(words, numbers)), json_string(pool.any_text()),
                                object_node, array_node}));
  return any;
}

Node Builder::sequence(std::span<const Node> parts) {
  std::vector<Node> kept;
  std::vector<Regular> run;  // consecutive text parts, to be merged
  const auto end_run = [&] {
    if (!run.empty()) kept.push_back(text(regulars().sequence(run)));
    run.clear();
  };
  for (const Node part : parts) {
    if (part == Node::kNothing) return part;
    if (part == Node::kEmptyText) continue;
    if (parts_->node(part).kind == NodeKind::kText) {
      run.push_back(Regular{parts_->node(part).a});
      continue;
    }
    end_run();
    kept.push_back(part);
  }
  end_run();
  if (kept.empty()) return Node::kEmptyText;
  Node made = kept.back();
  for (size_t i = kept.size() - 1; i-- > 0;) {
    made = add(*parts_,
               {NodeKind::kSequence, static_cast<uint32_t>(kept[i]), static_cast<uint32_t>(made)});
  }
  return made;
}

Node Builder::choice(std::span<const Node> parts) {
  std::vector<uint32_t> kept;
  std::vector<Regular> texts;
  for (const Node part : parts) {
    const NodeParts& node = parts_->node(part);
    if (part == Node::kNothing) continue;
    if (part == Node::kEmptyText) {
      texts.push_back(Regular::kEmptyText);
    } else if (node.kind == NodeKind::kText) {
      texts.push_back(Regular{node.a});
    } else if (std::ranges::find(kept, static_cast<uint32_t>(part)) == kept.end()) {
      kept.push_back(static_cast<uint32_t>(part));
    }
  }
  if (!texts.empty()) {
    const Node all = text(regulars().choice(texts));
    if (all != Node::kNothing) kept.push_back(static_cast<uint32_t>(all));
  }
  if (kept.empty()) return Node::kNothing;
  if (kept.size() == 1) return Node{kept.front()};
  const auto place = static_cast<uint32_t>(parts_->lists.size());
  parts_->lists.insert(parts_->lists.end(), kept.begin(), kept.end());
  return add(*parts_, {NodeKind::kChoice, place, static_cast<uint32_t>(kept.size())});
}

Node Builder::repeat(Node part, uint32_t min, uint32_t max) {
  if (max < min) return Node::kNothing;
  if (part == Node::kNothing) return min == 0 ? Node::kEmptyText : part;
  if (part == Node::kEmptyText || max == 0) return Node::kEmptyText;
  if (min == 1 && max == 1) return part;
  if (parts_->node(part).kind == NodeKind::kText) {
    return text(regulars().repeat(Regular{parts_->node(part).a}, min, max));
  }
  return add(*parts_, {NodeKind::kRepeat, static_cast<uint32_t>(part), min, max});
}

Node Builder::rule(std::string name) {
  parts_->rules.push_back({std::move(name), {}});
  return add(*parts_, {NodeKind::kRule, static_cast<uint32_t>(parts_->rules.size() - 1)});
}

void Builder::define(Node rule, Node body) {
  if (parts_->node(rule).kind == NodeKind::kRule) {
    parts_->rules[parts_->node(rule).a].body = body;
  } else {
    CHECK(exhausted());
  }
}

Result<Grammar> Builder::finish(Node start) {
  parts_->start = start;
  TRY(finish_parts(*parts_));
  return Grammar(std::shared_ptr<const GrammarParts>(std::move(parts_)));
}

const Limits& Grammar::limits() const { return parts_->limits; }

size_t Grammar::bytes() const { return parts_->bytes(); }

size_t GrammarParts::bytes() const {
  size_t n = sizeof(*this) + pool.bytes() + pool.bytes_of_sets() +
             nodes.capacity() * sizeof(NodeParts) + lists.capacity() * sizeof(uint32_t) +
             arrays.capacity() * sizeof(ArrayForm);
  for (const Rule& rule : rules) n += sizeof(rule) + rule.name.capacity();
  for (const ArrayForm& array : arrays) {
    for (const auto& items : array.first) n += sizeof(items) + items.size() * sizeof(items[0]);
    n +=
        array.rest.size() * sizeof(ArrayForm::Item) + array.counts.size() * sizeof(array.counts[0]);
    for (const auto& nodes_of_both : array.both) n += nodes_of_both.size() * sizeof(Node);
  }
  for (const ObjectParts& object : objects) {
    n += sizeof(object) + object.others.size() * sizeof(object.others[0]);
    for (const std::u32string& name : object.names) {
      n += sizeof(name) + name.capacity() * sizeof(char32_t) + sizeof(Node);
    }
    for (const auto& needs : object.needs) n += sizeof(needs) + needs.size() * sizeof(uint32_t);
    for (const auto& also : object.also) n += sizeof(also) + also.size() * sizeof(also[0]);
  }
  return n;
}

}  // namespace kvik::constrain
