#include "service/structural_tag/structural_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "service/request_bounds.h"
#include "service/structural_tag/free_text.h"
#include "service/structural_tag/tag_value.h"
#include "service/tools/call_writer.h"

namespace kvik {
namespace {

using Kind = Json::Kind;
using Value = TagValue;
using Texts = std::vector<std::string>;
using Nodes = std::vector<GrammarNode>;
using Node = Result<GrammarNode>;

constexpr size_t kMaxTags = RequestBounds::kFormChoices;
// Total size of the expressions for free text.
constexpr size_t kMaxFreeTextBytes = RequestBounds::kFormBytes;
constexpr int64_t kMaxRepeat = 100'000;

GrammarNode one_of(const Texts& texts) {
  Nodes nodes;
  for (const std::string& text : texts) nodes.push_back(GrammarNode::of_text(text));
  return GrammarNode::choice(std::move(nodes));
}

// Names the place of a node in the request, for errors that are found when it is compiled.
GrammarNode at_path(std::string path, GrammarNode node) {
  GrammarNode named = GrammarNode::sequence({std::move(node)});
  named.text = std::move(path);
  return named;
}

// The text that follows a format.
struct Tail {
  // kAnswerEnd: the answer may end there. kMarks: one of `marks` follows. kOther: something else.
  enum class Kind : uint8_t { kAnswerEnd, kMarks, kOther };
  Kind kind = Kind::kOther;
  Texts marks = {};
};

Result<void> check_marks(const Value& format, const FreeText& text) {
  const auto hidden = find_hidden_mark(text.marks);
  if (!hidden) return {};
  return format.refuse(
      fmt::format("searches free text for {}, which is never reached because {} comes first",
                  quoted_text(hidden->hidden), quoted_text(hidden->within)));
}

// Translates the formats of a structural tag into rules of a grammar.
class FormatReader {
 public:
  // Returns a node for the format and the marks that follow it.
  Node read(const Value& format, const Tail& tail);
  // Returns a node for the former notation, with `structures` and `triggers`.
  Node read_structures(const Value& tag);

  GrammarRules rules(GrammarNode start) && {
    rules_.add(std::move(start));
    return std::move(rules_);
  }

 private:
  using Read = Node (FormatReader::*)(const Value&, const Tail&);
  struct FormatType {
    std::string_view name;
    Read read;
    std::array<std::string_view, 5> members;  // besides "type"
  };
  static std::span<const FormatType> types();

  // A tag and the beginning of its text, which a trigger may match.
  struct Tag {
    std::string begin;
    Value at;
  };

  Node read_const_string(const Value& format, const Tail& tail);
  Node read_json_schema(const Value& format, const Tail& tail);
  Node read_regex(const Value& format, const Tail& tail);
  Node read_grammar(const Value& format, const Tail& tail);
  Node read_any_text(const Value& format, const Tail& tail);
  Node read_sequence(const Value& format, const Tail& tail);
  Node read_or(const Value& format, const Tail& tail);
  Node read_tag(const Value& format, const Tail& tail);
  Node read_triggered_tags(const Value& format, const Tail& tail);
  Node read_tags_with_separator(const Value& format, const Tail& tail);
  Node read_optional(const Value& format, const Tail& tail);
  Node read_plus(const Value& format, const Tail& tail);
  Node read_star(const Value& format, const Tail& tail);
  Node read_repeat(const Value& format, const Tail& tail);

  Result<Nodes> elements_of(const Value& format, const Tail& others, const Tail& last);
  Node schema(const Value& value);
  Result<std::vector<Tag>> tags_of(const Value& format, std::string_view name);
  Node tag_after(const Tag& tag, size_t n_read, const Tail& tail);
  Node structure_after(const Tag& tag, size_t n_read);
  template <class After>
  Node triggered(const Value& format, const std::vector<Tag>& tags, const Tail& tail,
                 const After& after);
  Node free_text(const Value& format, const FreeText& text, std::optional<std::string_view> mark);
  Node repeated(const Value& format, uint32_t min, uint32_t max, const Tail& tail);
  GrammarNode ended(GrammarNode node, const Tail& tail) const;

  GrammarRules rules_;
  size_t n_free_text_bytes_ = 0;
};

std::span<const FormatReader::FormatType> FormatReader::types() {
  using Self = FormatReader;
  static constexpr auto kTypes = std::to_array<FormatType>({
      {"const_string", &Self::read_const_string, {"value"}},
      {"json_schema", &Self::read_json_schema, {"json_schema", "style"}},
      {"regex", &Self::read_regex, {"pattern"}},
      {"grammar", &Self::read_grammar, {"grammar"}},
      {"any_text", &Self::read_any_text, {"excludes", "excluded_str"}},
      {"sequence", &Self::read_sequence, {"elements"}},
      {"or", &Self::read_or, {"elements"}},
      {"tag", &Self::read_tag, {"begin", "content", "end"}},
      {"triggered_tags",
       &Self::read_triggered_tags,
       {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"}},
      {"tags_with_separator",
       &Self::read_tags_with_separator,
       {"tags", "separator", "at_least_one", "stop_after_first"}},
      {"optional", &Self::read_optional, {"content"}},
      {"plus", &Self::read_plus, {"content"}},
      {"star", &Self::read_star, {"content"}},
      {"repeat", &Self::read_repeat, {"content", "min", "max"}},
  });
  return kTypes;
}

GrammarNode FormatReader::ended(GrammarNode node, const Tail& tail) const {
  if (tail.kind != Tail::Kind::kMarks) return node;
  return GrammarNode::sequence({std::move(node), one_of(tail.marks)});
}

Node FormatReader::read(const Value& format, const Tail& tail) {
  if (!format.json().is(Kind::kObject)) return format.wrong_kind("an object");
  TRY_ASSIGN(const std::string name, format.text("type"));
  const auto type = std::ranges::find(types(), name, &FormatType::name);
  if (type == types().end()) {
    const std::string path = format.path() + ".type";
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} is {}, a format that is not supported; expected one of {}", path,
                    quoted_text(name),
                    "const_string, json_schema, regex, grammar, any_text, sequence, or, tag, "
                    "triggered_tags, tags_with_separator, optional, plus, star, repeat"),
        path);
  }
  TRY(format.check_members(type->members));
  return (this->*type->read)(format, tail);
}

Node FormatReader::read_const_string(const Value& format, const Tail& tail) {
  TRY_ASSIGN(std::string value, format.text("value"));
  return ended(GrammarNode::of_text(std::move(value)), tail);
}

Node FormatReader::schema(const Value& value) {
  const bool is_schema = value.json().is(Kind::kObject) || value.json().is_bool();
  if (!is_schema) return value.wrong_kind("a JSON schema: an object, true or false");
  return at_path(value.path(), GrammarNode::of_schema(to_json(value.json())));
}

Node FormatReader::read_json_schema(const Value& format, const Tail& tail) {
  if (const auto style = format.find("style")) {
    TRY_ASSIGN(const std::string name, style->text());
    if (name != "json") {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} of a json_schema is {}, expected 'json'", style->path(),
                              quoted_text(name)),
                  style->path());
    }
  }
  TRY_ASSIGN(const Value value, format.member("json_schema"));
  TRY_ASSIGN(GrammarNode node, schema(value));
  return ended(std::move(node), tail);
}

// The expression is also compiled alone, repeated zero times, so that one whose parentheses are not
// balanced is refused.
Node FormatReader::read_regex(const Value& format, const Tail& tail) {
  TRY_ASSIGN(const Value pattern, format.member("pattern"));
  TRY_ASSIGN(const std::string text, pattern.text());
  auto alone = GrammarNode::repeat(GrammarNode::of_pattern(text), 0, 0);
  auto grouped = GrammarNode::of_pattern(fmt::format("(?-s:{})", text));
  return ended(
      at_path(pattern.path(), GrammarNode::sequence({std::move(alone), std::move(grouped)})), tail);
}

Node FormatReader::read_grammar(const Value& format, const Tail& tail) {
  TRY_ASSIGN(const Value grammar, format.member("grammar"));
  TRY_ASSIGN(std::string text, grammar.text());
  return ended(at_path(grammar.path(), GrammarNode::of_grammar(std::move(text))), tail);
}

// Returns a node for free text up to one of its marks; nullopt: without marks.
Node FormatReader::free_text(const Value& format, const FreeText& text,
                             std::optional<std::string_view> mark) {
  GrammarNode node = mark ? text.up_to(*mark) : text.without_marks();
  n_free_text_bytes_ += node.text.size();
  if (n_free_text_bytes_ <= kMaxFreeTextBytes) return at_path(format.path(), std::move(node));
  return format.refuse(fmt::format(
      "has too many triggers, ends and excluded texts: their expressions exceed {} bytes",
      kMaxFreeTextBytes));
}

Node FormatReader::read_any_text(const Value& format, const Tail& tail) {
  FreeText text;
  for (const char* name : {"excludes", "excluded_str"}) {
    TRY_ASSIGN(Texts excluded, format.marks(name, 0));
    std::ranges::move(excluded, std::back_inserter(text.excluded));
  }
  if (tail.kind == Tail::Kind::kOther)
    return format.refuse(
        "is any_text that something else follows; expected it last, or as the content of a tag "
        "with an end");
  if (tail.kind == Tail::Kind::kAnswerEnd) return free_text(format, text, std::nullopt);
  text.marks = tail.marks;
  TRY(check_marks(format, text));
  Nodes either;
  for (const std::string& mark : tail.marks) {
    TRY_ASSIGN(GrammarNode node, free_text(format, text, mark));
    either.push_back(std::move(node));
  }
  return GrammarNode::choice(std::move(either));
}

// Returns a node for each element. `last` follows the last one, `others` follows the others.
Result<Nodes> FormatReader::elements_of(const Value& format, const Tail& others, const Tail& last) {
  TRY_ASSIGN(const Value elements, format.member("elements"));
  TRY(elements.check_array(1, kMaxTags));
  Nodes all;
  const size_t n = elements.json().size();
  for (size_t i = 0; i < n; ++i) {
    TRY_ASSIGN(GrammarNode node, read(elements.item(i), i + 1 == n ? last : others));
    all.push_back(std::move(node));
  }
  return all;
}

Node FormatReader::read_sequence(const Value& format, const Tail& tail) {
  TRY_ASSIGN(Nodes all, elements_of(format, {}, tail));
  return GrammarNode::sequence(std::move(all));
}

Node FormatReader::read_or(const Value& format, const Tail& tail) {
  TRY_ASSIGN(Nodes all, elements_of(format, tail, tail));
  return GrammarNode::choice(std::move(all));
}

Node FormatReader::read_tag(const Value& format, const Tail& tail) {
  TRY_ASSIGN(std::string begin, format.text("begin"));
  return tag_after({std::move(begin), format}, 0, tail);
}

// Returns a node for a tag of which the first `n_read` bytes have been read. An empty end stands
// for whatever follows the tag.
Node FormatReader::tag_after(const Tag& tag, size_t n_read, const Tail& tail) {
  TRY_ASSIGN(const Value content, tag.at.member("content"));
  TRY_ASSIGN(const Value end, tag.at.member("end"));
  Texts ends;
  if (end.json().is(Kind::kArray)) {
    TRY_ASSIGN(ends, tag.at.marks("end", 1));
  } else {
    TRY_ASSIGN(std::string text, end.text());
    if (!text.empty()) ends.push_back(std::move(text));
  }
  GrammarNode begin = GrammarNode::of_text(tag.begin.substr(n_read));
  const bool is_open = ends.empty();
  TRY_ASSIGN(GrammarNode rest,
             read(content, is_open ? tail : Tail{Tail::Kind::kMarks, std::move(ends)}));
  GrammarNode whole = GrammarNode::sequence({std::move(begin), std::move(rest)});
  return is_open ? whole : ended(std::move(whole), tail);
}

Node FormatReader::structure_after(const Tag& tag, size_t n_read) {
  TRY_ASSIGN(const Value value, tag.at.member("schema"));
  TRY_ASSIGN(std::string end, tag.at.text("end"));
  GrammarNode content;
  if (value.json().is(Kind::kString)) {  // the text of a schema
    content = at_path(value.path(), GrammarNode::of_schema(value.json().text()));
  } else {
    TRY_ASSIGN(content, schema(value));
  }
  return GrammarNode::sequence({GrammarNode::of_text(tag.begin.substr(n_read)), std::move(content),
                                GrammarNode::of_text(std::move(end))});
}

Result<std::vector<FormatReader::Tag>> FormatReader::tags_of(const Value& format,
                                                             std::string_view name) {
  TRY_ASSIGN(const Value array, format.member(name));
  TRY(array.check_array(1, kMaxTags));
  const std::string_view content = name == "structures" ? "schema" : "content";
  std::vector<Tag> tags;
  for (size_t i = 0; i < array.json().size(); ++i) {
    Value at = array.item(i);
    if (!at.json().is(Kind::kObject)) return at.wrong_kind("an object");
    const auto members = {std::string_view("begin"), content, std::string_view("end")};
    TRY(at.check_members(members));
    if (const auto type = at.find("type")) {
      TRY_ASSIGN(const std::string text, type->text());
      if (text != "tag")
        return type->refuse(fmt::format("is {}, expected 'tag'", quoted_text(text)));
    }
    TRY_ASSIGN(std::string begin, at.text("begin"));
    tags.push_back({std::move(begin), std::move(at)});
  }
  return tags;
}

// Returns a node for free text in which a tag follows each trigger. `after` returns a node for the
// rest of a tag after its trigger. A tag that begins the text (at_least_one) has no free text
// before it.
template <class After>
Node FormatReader::triggered(const Value& format, const std::vector<Tag>& tags, const Tail& tail,
                             const After& after) {
  TRY_ASSIGN(const Texts triggers, format.marks("triggers", 1));
  TRY_ASSIGN(const bool has_first, format.flag("at_least_one"));
  TRY_ASSIGN(const bool is_single, format.flag("stop_after_first"));
  FreeText text{.marks = triggers};
  TRY_ASSIGN(text.excluded, format.marks("excludes", 0));
  if (tail.kind == Tail::Kind::kMarks) {
    for (const std::string& mark : tail.marks) {
      if (std::ranges::find(text.marks, mark) == text.marks.end()) text.marks.push_back(mark);
    }
  }
  if (tail.kind == Tail::Kind::kOther && !(has_first && is_single))
    return format.refuse(
        "is free text with tags that something else follows; expected it last, or as the content "
        "of a tag with an end");
  TRY(check_marks(format, text));

  std::vector<Nodes> by_trigger(triggers.size());
  for (const Tag& tag : tags) {
    const auto begins = [&](const std::string& trigger) { return tag.begin.starts_with(trigger); };
    const auto trigger = std::ranges::find_if(triggers, begins);
    if (trigger == triggers.end())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}.begin is {}, expected one of the triggers at its beginning",
                              tag.at.path(), quoted_text(tag.begin)),
                  tag.at.path() + ".begin");
    TRY_ASSIGN(GrammarNode rest, after(tag, trigger->size()));
    by_trigger[static_cast<size_t>(trigger - triggers.begin())].push_back(std::move(rest));
  }

  Nodes first, later;  // a tag alone, and after free text
  for (size_t i = 0; i < triggers.size(); ++i) {
    if (by_trigger[i].empty())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}.triggers has {}, with which no tag begins", format.path(),
                              quoted_text(triggers[i])),
                  format.path() + ".triggers");
    const GrammarNode rest = rules_.add(GrammarNode::choice(std::move(by_trigger[i])));
    TRY_ASSIGN(GrammarNode before, free_text(format, text, triggers[i]));
    first.push_back(GrammarNode::sequence({GrammarNode::of_text(triggers[i]), rest}));
    later.push_back(GrammarNode::sequence({std::move(before), rest}));
  }
  if (is_single && has_first) return ended(GrammarNode::choice(std::move(first)), tail);

  Nodes last;  // free text without tags, and what follows it
  if (tail.kind == Tail::Kind::kAnswerEnd) {
    TRY_ASSIGN(GrammarNode node, free_text(format, text, std::nullopt));
    last.push_back(std::move(node));
  }
  for (const std::string& mark : tail.marks) {
    TRY_ASSIGN(GrammarNode node, free_text(format, text, mark));
    last.push_back(std::move(node));
  }
  GrammarNode end = GrammarNode::choice(std::move(last));
  GrammarNode tag = GrammarNode::choice(std::move(later));
  if (is_single) return GrammarNode::choice({std::move(end), ended(std::move(tag), tail)});
  Nodes all;
  if (has_first) all.push_back(GrammarNode::choice(std::move(first)));
  all.push_back(GrammarNode::repeat(std::move(tag), 0, GrammarNode::kUnbounded));
  all.push_back(std::move(end));
  return GrammarNode::sequence(std::move(all));
}

Node FormatReader::read_triggered_tags(const Value& format, const Tail& tail) {
  TRY_ASSIGN(const std::vector<Tag> tags, tags_of(format, "tags"));
  return triggered(format, tags, tail,
                   [this](const Tag& tag, size_t n_read) { return tag_after(tag, n_read, {}); });
}

Node FormatReader::read_structures(const Value& tag) {
  TRY_ASSIGN(const std::vector<Tag> tags, tags_of(tag, "structures"));
  return triggered(tag, tags, {.kind = Tail::Kind::kAnswerEnd},
                   [this](const Tag& one, size_t n_read) { return structure_after(one, n_read); });
}

Node FormatReader::read_tags_with_separator(const Value& format, const Tail& tail) {
  TRY_ASSIGN(const std::vector<Tag> tags, tags_of(format, "tags"));
  TRY_ASSIGN(std::string separator, format.text("separator"));
  TRY_ASSIGN(const bool has_one, format.flag("at_least_one"));
  TRY_ASSIGN(const bool is_single, format.flag("stop_after_first"));
  Nodes either;
  for (const Tag& tag : tags) {
    TRY_ASSIGN(GrammarNode node, tag_after(tag, 0, {}));
    either.push_back(std::move(node));
  }
  const GrammarNode one = rules_.add(GrammarNode::choice(std::move(either)));
  GrammarNode all = one;
  if (!is_single) {
    const auto next = GrammarNode::sequence({GrammarNode::of_text(std::move(separator)), one});
    all = GrammarNode::sequence({one, GrammarNode::repeat(next, 0, GrammarNode::kUnbounded)});
  }
  return ended(has_one ? std::move(all) : GrammarNode::repeat(std::move(all), 0, 1), tail);
}

Node FormatReader::repeated(const Value& format, uint32_t min, uint32_t max, const Tail& tail) {
  TRY_ASSIGN(const Value content, format.member("content"));
  TRY_ASSIGN(GrammarNode node, read(content, Tail{}));
  return ended(GrammarNode::repeat(std::move(node), min, max), tail);
}

Node FormatReader::read_optional(const Value& format, const Tail& tail) {
  return repeated(format, 0, 1, tail);
}
Node FormatReader::read_plus(const Value& format, const Tail& tail) {
  return repeated(format, 1, GrammarNode::kUnbounded, tail);
}
Node FormatReader::read_star(const Value& format, const Tail& tail) {
  return repeated(format, 0, GrammarNode::kUnbounded, tail);
}

Node FormatReader::read_repeat(const Value& format, const Tail& tail) {
  TRY_ASSIGN(const Value min, format.member("min"));
  TRY_ASSIGN(const Value max, format.member("max"));
  const auto count = [](const Value& value, int64_t least) -> Result<int64_t> {
    const auto* number = std::get_if<int64_t>(&value.json().value);
    if (number && *number >= least && *number <= kMaxRepeat) return *number;
    return value.refuse(fmt::format("must be an integer from {} to {}", least, kMaxRepeat));
  };
  TRY_ASSIGN(const int64_t least, count(min, 0));
  TRY_ASSIGN(const int64_t most, count(max, -1));
  if (most >= 0 && most < least)
    return max.refuse(fmt::format("is {}, expected at least min, {}", most, least));
  return repeated(format, static_cast<uint32_t>(least),
                  most < 0 ? GrammarNode::kUnbounded : static_cast<uint32_t>(most), tail);
}

Result<GrammarRules> read_structural_tag(const Value& tag) {
  if (!tag.json().is(Kind::kObject)) return tag.wrong_kind("an object");
  if (const auto type = tag.find("type")) {
    TRY_ASSIGN(const std::string name, type->text());
    if (name != "structural_tag")
      return type->refuse(fmt::format("is {}, expected 'structural_tag'", quoted_text(name)));
  }
  const auto format = tag.find("format");
  const bool has_structures = tag.find("structures") || tag.find("triggers");
  if (format && has_structures)
    return tag.refuse("has format beside structures and triggers; expected one notation");
  if (!format && !has_structures)
    return tag.refuse("has neither format nor structures and triggers");
  FormatReader reader;
  TRY_ASSIGN(GrammarNode start, format ? reader.read(*format, {.kind = Tail::Kind::kAnswerEnd})
                                       : reader.read_structures(tag));
  return std::move(reader).rules(std::move(start));
}

}  // namespace

Result<GrammarRules> structural_tag_rules(std::string_view json, std::string_view param) {
  auto parsed = parse_json(json);
  if (!parsed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not the JSON text of a structural tag: {}", param,
                            parsed.error().message),
                std::string(param));
  }
  return read_structural_tag(Value(*parsed, std::string(param)));
}

}  // namespace kvik
