#include "service/tools/call_steps.h"

#include <algorithm>
#include <initializer_list>

#include "base/blanks.h"
#include "base/check.h"

namespace kvik {
namespace {

using Kind = CallStep::Kind;
using StepStyle = CallStep::Style;
using Values = CallSyntax::Values;
using Unlisted = CallSyntax::Unlisted;
using Marks = std::vector<std::string_view>;

// Returns the marks in a text. Marks are separated by line breaks and by the edges of tags, to
// which a namespace before them belongs.
Marks marks_in(std::string_view text) {
  Marks marks;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool is_namespace = text.substr(i).starts_with(kTagNamespace);
    const bool is_border = i == text.size() || is_namespace || text[i] == '\n' || text[i] == '<' ||
                           (i > 0 && (text[i - 1] == '>' || text[i - 1] == ']'));
    if (!is_border) continue;
    const std::string_view mark = trimmed(text.substr(begin, i - begin));
    if (!mark.empty()) marks.push_back(mark);
    begin = i;
    if (is_namespace) i += kTagNamespace.size();
  }
  return marks;
}

// Placeholder for the number of the kCall step until that step is added.
constexpr uint8_t kToCall = 254;

std::string_view first_mark(std::string_view text) {
  const Marks marks = marks_in(text);
  return marks.empty() ? std::string_view() : marks.front();
}

// Creates the steps for one syntax.
class StepWriter {
 public:
  explicit StepWriter(const CallSyntax& syntax) : syntax_(syntax) {}

  CallSteps write() && {
    begin_list();
    if (syntax_.values != Values::kJsonCall) name();
    arguments();
    add({.kind = Kind::kCall});
    end_call();
    end_list();
    return std::move(all_);
  }

 private:
  uint8_t next() const { return static_cast<uint8_t>(all_.steps.size()); }
  // Returns the number of the step n_steps after the next one to be added.
  uint8_t ahead(int n_steps) const { return static_cast<uint8_t>(next() + n_steps); }
  CallStep& add(CallStep step) { return all_.steps.emplace_back(step); }
  void blanks() { add({.kind = Kind::kBlanks}); }
  void mark(std::string_view text, uint8_t to = 0) {
    add({.kind = Kind::kMark, .mark = text, .to = to});
  }
  void blanks_and_mark(std::string_view text) {
    blanks();
    mark(text);
  }
  // Adds a step with several ways; ways without a mark are omitted.
  CallStep& choice(Kind kind, std::initializer_list<CallStep::Way> ways) {
    CallStep step{.kind = kind};
    std::ranges::copy_if(ways, step.ways.begin(),
                         [](const CallStep::Way& way) { return !way.mark.empty(); });
    return add(step);
  }
  void begin_list();
  void name();
  void arguments();
  void parameters();
  void quoted_value(uint8_t before_key);
  CallStep& after_value(uint8_t key);
  void end_call();
  void end_list();

  const CallSyntax& syntax_;
  CallSteps all_;
  uint8_t call_ = 0;         // the step where a call begins
  uint8_t after_begin_ = 0;  // the step after its `begin`
};

void StepWriter::begin_list() {
  const Marks marks = marks_in(syntax_.list_begin);
  CHECK(!marks.empty());
  all_.begins.push_back({marks.front(), 0});
  for (size_t i = 1; i < marks.size(); ++i) blanks_and_mark(marks[i]);
  call_ = next();
  if (!syntax_.begin.empty()) blanks_and_mark(syntax_.begin);
  after_begin_ = next();
  if (syntax_.unlisted == Unlisted::kNever) return;
  all_.begins.push_back(
      {syntax_.begin, after_begin_, syntax_.unlisted == Unlisted::kAtAnswerBegin});
}

void StepWriter::name() {
  if (syntax_.skips_blanks) blanks();
  const Marks before = syntax_.has_numbered_names ? Marks() : marks_in(syntax_.name);
  if (before.size() == 1) mark(before[0]);
  // The name follows a word and a mark; models may write other text in place of the word.
  if (before.size() == 2) choice(Kind::kName, {{before[1], ahead(1)}});
  const bool has_parameters = syntax_.values == Values::kParameters;
  if (has_parameters && trimmed(syntax_.between).empty()) {  // the next mark also ends the name
    choice(
        Kind::kName,
        {{syntax_.between, ahead(1)}, {syntax_.key, ahead(3)}, {first_mark(syntax_.end), kToCall}});
    return;
  }
  const bool has_tags = has_parameters || syntax_.values == Values::kElements;
  const std::string_view mark = has_tags ? first_mark(syntax_.between) : syntax_.between;
  const bool has_id = !syntax_.id.empty();
  choice(Kind::kName, {{syntax_.id, ahead(1)}, {mark, ahead(has_id ? 2 : 1)}}).is_numbered =
      syntax_.has_numbered_names;
  if (has_id) choice(Kind::kId, {{mark, ahead(1)}});
}

void StepWriter::arguments() {
  using Begin = ValueReader::Begin;
  switch (syntax_.values) {
    case Values::kJsonCall: {
      const bool is_begun = syntax_.begin.ends_with('{');
      if (!is_begun) blanks();
      add({.kind = Kind::kJsonCall,
           .begin = is_begun ? Begin::kObject : Begin::kHere,
           .is_sure = syntax_.unlisted != Unlisted::kAtAnswerBegin});
      return;
    }
    case Values::kJson:
      if (syntax_.skips_blanks) blanks();
      add({.kind = Kind::kArguments});
      return;
    case Values::kPython:
      add({.kind = Kind::kArguments, .begin = Begin::kCall, .dialect = &kPython});
      return;
    case Values::kGemma:
      add({.kind = Kind::kArguments, .begin = Begin::kObject, .dialect = &kGemmaValues});
      return;
    case Values::kParameters:
      parameters();
      return;
    case Values::kElements:
      add({.kind = Kind::kElements, .mark = first_mark(syntax_.end)});
      return;
  }
}

void StepWriter::parameters() {
  const bool tells_json = !syntax_.after_json_key.empty();
  const bool has_quotes = !syntax_.quote.empty();
  const Marks after_key = marks_in(syntax_.after_key);
  const uint8_t before_key = next();
  blanks();
  const uint8_t key = ahead(1);
  after_value(key);
  const uint8_t value = ahead(static_cast<int>(2 * after_key.size() - 1) + (has_quotes ? 2 : 0));
  choice(Kind::kKey,
         {{after_key.front(), ahead(1)}, {first_mark(syntax_.after_json_key), ahead(2)}});
  for (size_t i = 1; i < after_key.size(); ++i) blanks_and_mark(after_key[i]);
  if (has_quotes) {
    blanks();
    const int n_of_value = tells_json ? 4 : 3;  // steps of a value without quotes
    choice(Kind::kOneOf, {{syntax_.quote, ahead(1 + n_of_value)}}).otherwise = value;
  }
  CallStep text{
      .kind = Kind::kText,
      .mark = first_mark(syntax_.after_value),
      .to = static_cast<uint8_t>(value + (tells_json ? 2 : 1)),
      .style = tells_json ? StepStyle::kString : StepStyle::kBySchema,
      .trims_lines = syntax_.after_key.ends_with('\n') && syntax_.after_value.starts_with('\n')};
  add(text);
  text.style = StepStyle::kJson;
  if (tells_json) add(text);
  blanks();
  after_value(key).otherwise = value;
  if (has_quotes) quoted_value(before_key);
  for (CallStep& step : all_.steps) {
    for (CallStep::Way& way : step.ways) {
      if (way.to == kToCall) way.to = next();
    }
  }
}

// Adds the steps after an opening quote. The closing quote counts if the end of the value follows;
// if other text follows, the value ends where what follows a value does.
void StepWriter::quoted_value(uint8_t before_key) {
  const std::string_view end = first_mark(syntax_.after_value);
  const uint8_t value = next();
  add({.kind = Kind::kText,
       .mark = syntax_.end_quote,
       .quote = syntax_.quote,
       .ways = {{{end, ahead(3)}}}});
  blanks();
  choice(Kind::kOneOf, {{end, before_key}}).otherwise = value;
  blanks();
  after_value(static_cast<uint8_t>(before_key + 2)).otherwise = value;
}

// Adds the step after a parameter's value: another parameter or the end of the call.
CallStep& StepWriter::after_value(uint8_t key) {
  return choice(Kind::kOneOf, {{syntax_.key, key}, {first_mark(syntax_.end), kToCall}});
}

// Adds the marks of `end` that are not read with the arguments.
void StepWriter::end_call() {
  if (syntax_.values == Values::kParameters || syntax_.values == Values::kElements) return;
  const bool has_bracket = syntax_.values != Values::kJson;
  for (const std::string_view each : marks_in(syntax_.end.substr(has_bracket ? 1 : 0))) {
    blanks_and_mark(each);
  }
}

void StepWriter::end_list() {
  const Marks marks = marks_in(syntax_.list_end);
  const std::string_view begin = syntax_.begin;
  const std::string_view separator =
      syntax_.has_one_call_lists ? std::string_view() : trimmed(syntax_.separator);
  size_t n_read = 0;
  if (!separator.empty() || !begin.empty()) {  // another call may follow
    blanks();
    const CallStep::Way end = {first_mark(syntax_.list_end), ahead(1)};
    n_read = marks.empty() ? 0 : 1;
    if (separator.empty()) {
      choice(Kind::kOneOf, {{begin, after_begin_}, end});
    } else if (begin.empty()) {
      choice(Kind::kOneOf, {{separator, call_}, end});
    } else {
      choice(Kind::kOneOf, {{separator, ahead(1)}, {end.mark, ahead(3)}});
      blanks();
      mark(begin, after_begin_);
    }
  }
  for (size_t i = n_read; i < marks.size(); ++i) blanks_and_mark(marks[i]);
  add({.kind = Kind::kEnd});
}

// Combines the steps of two syntaxes with a common beginning. At the first difference one of them
// has a mark or an object and the other a name, so the next byte decides.
CallSteps joined(CallSteps first, CallSteps second) {
  std::vector<CallStep>& steps = first.steps;
  const auto [differs, other] = std::ranges::mismatch(steps, second.steps);
  if (differs->kind == Kind::kName) return joined(std::move(second), std::move(first));
  CHECK(other->kind == Kind::kName && first.begins.front().mark == second.begins.front().mark);
  const auto branch = static_cast<uint8_t>(differs - steps.begin());
  CallStep choice{.kind = Kind::kOneOf};
  choice.ways[0] = {differs->mark, static_cast<uint8_t>(branch + 1)};
  if (differs->kind == Kind::kArguments) {
    choice.ways[0] = {"{", static_cast<uint8_t>(steps.size())};
    CallStep arguments = *differs;
    arguments.begin = ValueReader::Begin::kObject;
    arguments.to = static_cast<uint8_t>(branch + 1);
    steps.push_back(arguments);
  }
  choice.otherwise = static_cast<uint8_t>(steps.size());
  steps[branch] = choice;
  const auto moved = [branch, n = choice.otherwise - branch](uint8_t to) {
    return static_cast<uint8_t>(to < branch || to == CallStep::kNoStep ? to : to + n);
  };
  for (auto step = second.steps.begin() + branch; step != second.steps.end(); ++step) {
    step->to = moved(step->to);
    step->otherwise = moved(step->otherwise);
    for (CallStep::Way& way : step->ways) way.to = moved(way.to);
    steps.push_back(*step);
  }
  return first;
}

}  // namespace

CallSteps steps_of(const std::vector<CallSyntax>& syntaxes) {
  CallSteps steps = StepWriter(syntaxes.front()).write();
  return syntaxes.size() == 1 ? steps
                              : joined(std::move(steps), StepWriter(syntaxes.back()).write());
}

CallSteps steps_after_header() {
  return {.begins = {},
          .steps = {{.kind = Kind::kBlanks},
                    {.kind = Kind::kArguments},
                    {.kind = Kind::kCall},
                    {.kind = Kind::kEnd}}};
}

}  // namespace kvik
