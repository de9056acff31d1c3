#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "service/structured_output/answer_constraint.h"
#include "service/structured_output/grammar_compiler.h"
#include "support/tiny_service.h"

// Structured output: answers satisfy their schema or grammar, whatever the model prefers.
namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = StructuredOutput::Kind;

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {"kind": {"enum": ["cat", "dog"]}, "tame": {"type": "boolean"}},
  "required": ["kind", "tame"],
  "additionalProperties": false
})";

// Returns a constraint with properties in any order and without white space, so that tests can
// compare answers byte by byte.
StructuredOutput schema_form(std::string schema) {
  return {.kind = Kind::kJsonSchema,
          .text = std::move(schema),
          .style = {JsonStyle::Whitespace::kCompact, JsonStyle::Language::kFull},
          .param = "here"};
}

CompletionRequest request_for(StructuredOutput form, float temperature = 2) {
  CompletionRequest request;
  request.prompt = "Once upon a time";
  request.max_tokens = 200;
  request.seed = 7;
  request.engine.sampling.temperature = temperature;
  request.form = std::move(form);
  return request;
}

std::set<std::string> pets() {
  std::set<std::string> all;
  for (const char* kind : {"cat", "dog"}) {
    for (const char* tame : {"true", "false"}) {
      all.insert(fmt::format(R"({{"kind":"{}","tame":{}}})", kind, tame));
      all.insert(fmt::format(R"({{"tame":{},"kind":"{}"}})", tame, kind));
    }
  }
  return all;
}

// Advances the constraint by the bytes of a text, each of which must be allowed.
void say(Constraint& constraint, std::string_view text) {
  for (const char byte : text) {
    ASSERT_TRUE(constraint.allows(byte_token(byte))) << byte;
    constraint.advance(byte_token(byte));
  }
}

TokenBitmask mask_of(Constraint& constraint, uint32_t n_vocab) {
  TokenBitmask mask(n_vocab);
  constraint.fill_mask(mask);
  return mask;
}

std::vector<TokenId> allowed_by(Constraint& constraint, uint32_t n_vocab) {
  const TokenBitmask mask = mask_of(constraint, n_vocab);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < n_vocab; ++token) {
    if (mask.allows(token)) tokens.push_back(token);
  }
  return tokens;
}

class Forms : public testing::Test {
 protected:
  AnswerConstraint constraint(const StructuredOutput& form, AnswerBegin begin = AnswerBegin::kText,
                              const AnswerSyntax& syntax = {}) {
    auto compiled = compiler_.compile(form);
    CHECK(compiled.has_value());
    return {compiled->vocabulary, compiled->grammar,
            compiled->vocabulary->lead(begin, syntax, form.includes_header)};
  }
  // Returns a constraint under which the model may begin with reasoning, opened by its mark.
  AnswerConstraint offering(const StructuredOutput& form) {
    auto compiled = compiler_.compile(form);
    CHECK(compiled.has_value());
    AnswerPreamble lead;
    for (const char byte : kThinkTags.begin_reasoning) lead.offered.push_back(byte_token(byte));
    lead.end_reasoning = kThinkTags.end_reasoning;
    return {compiled->vocabulary, compiled->grammar, lead};
  }
  uint32_t n_vocab() { return rig.tokenizer().n_vocab(); }

  ServiceRig rig;

 private:
  GrammarCompiler compiler_{rig.tokenizer()};
};

TEST_F(Forms, an_answer_matches_its_schema_at_any_temperature) {
  const auto valid = pets();
  for (const float temperature : {0.0f, 1.0f, 5.0f}) {
    CompletionRequest request = request_for(schema_form(kSchema), temperature);
    request.n = 4;
    const Answered answered = rig.answer(request);
    for (const Choice& choice : answered.choices) {
      EXPECT_TRUE(valid.contains(choice.text)) << choice.text;
      EXPECT_THAT(choice.finishes, ElementsAre(FinishReason::kStop));
    }
  }
}

TEST_F(Forms, choices_expressions_and_grammars_are_kept) {
  const StructuredOutput choice{.kind = Kind::kChoice, .choices = {"yes", "no", "perhaps"}};
  const std::string chosen = rig.answer(request_for(choice)).choices[0].text;
  EXPECT_TRUE(chosen == "yes" || chosen == "no" || chosen == "perhaps") << chosen;

  const std::string matched =
      rig.answer(request_for({.kind = Kind::kRegex, .text = "(ab|c){3}[0-9]{4}"})).choices[0].text;
  EXPECT_THAT(matched, testing::MatchesRegex("((ab)|c)((ab)|c)((ab)|c)[0-9][0-9][0-9][0-9]"));

  for (const auto& [kind, grammar] :
       {std::pair{Kind::kGbnf, "root ::= \"(\" [xy] \")\" | \"z\""},
        std::pair{Kind::kLark, "start: \"(\" /[xy]/ \")\" | \"z\""}}) {
    const std::string text =
        rig.answer(request_for({.kind = kind, .text = grammar})).choices[0].text;
    EXPECT_TRUE((std::set<std::string>{"(x)", "(y)", "z"}.contains(text))) << text;
  }
}

TEST_F(Forms, any_object_begins_and_ends_with_its_braces) {
  CompletionRequest request = request_for({.kind = Kind::kJsonObject}, 1);
  request.engine.sampling.logit_bias = {{byte_token('}'), 50.0f}};
  EXPECT_EQ(rig.answer(request).choices[0].text, "{}");
}

TEST_F(Forms, an_answer_that_is_cut_says_so) {
  CompletionRequest request = request_for(schema_form(kSchema));
  request.max_tokens = 5;
  const Answered answered = rig.answer(request);
  EXPECT_EQ(answered.choices[0].text.size(), 5u);
  EXPECT_THAT(answered.choices[0].finishes, ElementsAre(FinishReason::kLength));
}

TEST_F(Forms, other_requests_do_not_change_an_answer) {
  std::vector<std::string> alone;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CompletionRequest request =
        request_for(schema_form(R"({"type":"array","items":{"type":"integer"}})"));
    request.seed = seed;
    request.max_tokens = 40;
    ServiceRig fresh;
    alone.push_back(fresh.answer(request).choices[0].text);
  }
  std::vector<std::shared_ptr<RecordingCompletionSink>> sinks;
  std::vector<std::unique_ptr<Completion>> running;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CompletionRequest request =
        request_for(schema_form(R"({"type":"array","items":{"type":"integer"}})"));
    request.seed = seed;
    request.max_tokens = 40;
    sinks.push_back(std::make_shared<RecordingCompletionSink>());
    auto completion = rig.service().complete(request, sinks.back());
    ASSERT_TRUE(completion.has_value());
    running.push_back(std::move(*completion));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->wait_until_done());
    std::string text;
    for (const CompletionChunk& chunk : sinks[i]->chunks()) text += chunk.text;
    EXPECT_EQ(text, alone[i]);
  }
}

TEST_F(Forms, invalid_constraints_fail_with_field_and_position) {
  const Error schema =
      rig.error_of(request_for(schema_form(R"({"properties":{"a":{"type":"x"}}})")));
  EXPECT_EQ(schema.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(schema.param, "here");
  EXPECT_THAT(schema.message, HasSubstr("/properties/a"));
  const Error regex =
      rig.error_of(request_for({.kind = Kind::kRegex, .text = "(a)\\1", .param = "r"}));
  EXPECT_EQ(regex.param, "r");
  EXPECT_THAT(regex.message, HasSubstr("back reference"));
}

TEST_F(Forms, a_constraint_is_compiled_once) {
  const StructuredOutput form = schema_form(kSchema);
  EXPECT_TRUE(rig.service().must_compile(request_for(form)));
  rig.answer(request_for(form));
  EXPECT_FALSE(rig.service().must_compile(request_for(form)));
  StructuredOutput other = form;
  other.style.whitespace = JsonStyle::Whitespace::kFlexible;
  EXPECT_TRUE(rig.service().must_compile(request_for(other)));
}

TEST_F(Forms, grammars_are_separate_by_key_and_salt) {
  CompletionRequest own = request_for(schema_form(kSchema));
  own.engine.tenant = "own";
  own.engine.cache_salt = "salt";
  rig.answer(own);
  EXPECT_FALSE(rig.service().must_compile(own));
  CompletionRequest others = own;
  others.engine.tenant = "other";
  EXPECT_TRUE(rig.service().must_compile(others));
  CompletionRequest salted = own;
  salted.engine.cache_salt = "another";
  EXPECT_TRUE(rig.service().must_compile(salted));
}

StructuredOutput regex_form(std::string text) {
  return {.kind = Kind::kRegex, .text = std::move(text), .param = "guided_regex"};
}

TEST_F(Forms, all_compiled_grammars_together_have_one_bound) {
  constexpr size_t kBound = 300'000;
  GrammarCompiler compiler(rig.tokenizer(), JsonStyle::Language::kCanonical, kBound);
  const auto compile = [&](const std::string& tenant, int i) {
    return compiler.compile(regex_form(fmt::format("({}|[a-f]{{100}}x){{20}}", i)), {tenant, ""});
  };
  ASSERT_TRUE(compile("modest", 0).has_value());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(compile("greedy", i).has_value());
    EXPECT_LE(compiler.memory().compiled_bytes, kBound);
  }
  EXPECT_TRUE(compiler.knows(regex_form("(0|[a-f]{100}x){20}"), {"modest", ""}))
      << "a tenant pushes out its own grammars";
  EXPECT_TRUE(compiler.knows(regex_form("(99|[a-f]{100}x){20}"), {"greedy", ""}));
  EXPECT_FALSE(compiler.knows(regex_form("(0|[a-f]{100}x){20}"), {"greedy", ""}));
}

TEST_F(Forms, grammars_in_use_count_and_refuse_others_of_their_key_alone) {
  constexpr size_t kBound = 300'000;
  GrammarCompiler compiler(rig.tokenizer(), JsonStyle::Language::kCanonical, kBound);
  std::vector<CompiledOutputGrammar> in_use;
  std::optional<Error> refused;
  for (int i = 0; i < 100 && !refused; ++i) {
    auto form = compiler.compile(regex_form(fmt::format("({}|[a-f]{{100}}x){{20}}", i)), {"a", ""});
    if (form) {
      in_use.push_back(std::move(*form));
    } else {
      refused = form.error();
    }
    EXPECT_LE(compiler.memory().compiled_bytes, kBound);
  }
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, ErrorCode::kExhausted);
  EXPECT_TRUE(compiler.compile(regex_form("[ab]{30}"), {"b", ""}).has_value());
  in_use.clear();
  EXPECT_TRUE(compiler.compile(regex_form("[ab]{40}"), {"a", ""}).has_value());
}

constexpr const char* kExhausting = "((([a-z]{1,30}){1,30}){1,30}){1,30}";

TEST_F(Forms, a_grammar_that_takes_too_much_ends_its_answer_alike_each_time) {
  std::vector<std::pair<std::string, std::vector<FinishReason>>> ends;
  for (int turn = 0; turn < 3; ++turn) {
    CompletionRequest request = request_for(regex_form(kExhausting));
    request.n = 2;
    for (const Choice& choice : rig.answer(request).choices) {
      ends.emplace_back(choice.text, choice.finishes);
    }
  }
  EXPECT_TRUE(std::ranges::any_of(
      ends, [](const auto& end) { return end.second == std::vector{FinishReason::kExhausted}; }));
  for (size_t i = 2; i < ends.size(); ++i) EXPECT_EQ(ends[i], ends[i % 2]) << i;
  EXPECT_EQ(rig.service().grammar_memory().matching_bytes, 0u);
}

TEST_F(Forms, an_exhausted_grammar_ends_neither_the_process_nor_the_answers_beside) {
  const auto start = [&](std::string regex, const std::shared_ptr<RecordingCompletionSink>& sink) {
    auto completion = rig.service().complete(request_for(regex_form(std::move(regex))), sink);
    EXPECT_TRUE(completion.has_value());
    return std::move(*completion);
  };
  std::vector<std::shared_ptr<RecordingCompletionSink>> sinks;
  std::vector<std::unique_ptr<Completion>> running;
  for (const char* regex : {kExhausting, kExhausting, "[a-z]{200}"}) {
    sinks.push_back(std::make_shared<RecordingCompletionSink>());
    running.push_back(start(regex, sinks.back()));
  }
  for (const auto& sink : sinks) ASSERT_TRUE(sink->wait_until_done());
  EXPECT_EQ(sinks[0]->chunks().back().finish, FinishReason::kExhausted);
  EXPECT_EQ(sinks[1]->chunks().back().finish, FinishReason::kExhausted);
  EXPECT_NE(sinks[2]->chunks().back().finish, FinishReason::kExhausted);
}

TEST_F(Forms, choices_and_roll_backs_are_states_of_their_own) {
  AnswerConstraint first = constraint(schema_form(kSchema));
  say(first, "{\"");
  const auto second = first.fork();
  say(first, "kind\":\"cat\",");
  say(*second, "tame\":true,");
  EXPECT_THAT(allowed_by(first, n_vocab()), ElementsAre(byte_token('"')));
  first.roll_back(12);
  EXPECT_TRUE(first.allows(byte_token('t')));
  say(first, "tame\":false,\"kind\":\"dog\"}");
  EXPECT_EQ(first.end(), Constraint::End::kMust);
  EXPECT_EQ(second->end(), Constraint::End::kNotYet);
}

TEST_F(Forms, masks_agree_with_allows_in_every_state) {
  std::mt19937 random(5);
  AnswerConstraint walked = constraint(schema_form(R"({
    "type":"object","properties":{"a":{"type":"string","maxLength":4},"b":{"type":"number"},
    "list":{"type":"array","items":{"enum":["x",null,[1]]}}},"required":["b"]})"));
  std::vector<TokenBitmask> masks;
  for (int step = 0; step < 300; ++step) {
    masks.push_back(mask_of(walked, n_vocab()));
    const auto allowed = allowed_by(walked, n_vocab());
    for (TokenId token = 0; token < n_vocab(); ++token)
      EXPECT_EQ(walked.allows(token), std::ranges::count(allowed, token) > 0) << token;
    std::vector<TokenId> forced;
    walked.forced(10, forced);
    if (!forced.empty()) {
      EXPECT_THAT(allowed, ElementsAre(forced[0]));
    }
    if (allowed.empty() || (masks.size() > 3 && random() % 4 == 0)) {
      if (allowed.empty()) {
        EXPECT_NE(walked.end(), Constraint::End::kNotYet);
      }
      const auto n = static_cast<uint32_t>(1 + random() % std::min<size_t>(masks.size() - 1, 20));
      walked.roll_back(n);
      masks.resize(masks.size() - n);
      EXPECT_EQ(mask_of(walked, n_vocab()), masks.back());
      masks.pop_back();
    } else {
      walked.advance(allowed[random() % allowed.size()]);
    }
  }
}

TEST_F(Forms, forced_text_is_returned_ahead) {
  AnswerConstraint pet = constraint(schema_form(
      R"({"type":"object","properties":{"kind":{"const":"cat"}},"required":["kind"],
          "additionalProperties":false})"));
  std::vector<TokenId> tokens;
  pet.forced(100, tokens);
  std::string text;
  for (const TokenId token : tokens)
    text += rig.tokenizer().piece(token, Tokenizer::Special::kHide);
  EXPECT_EQ(text, R"({"kind":"cat"})");
  for (const TokenId token : tokens) {
    EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(token));
    pet.advance(token);
  }
  EXPECT_EQ(pet.end(), Constraint::End::kMust);
}

TEST_F(Forms, reasoning_precedes_the_constrained_answer) {
  AnswerConstraint pet = constraint(schema_form(kSchema), AnswerBegin::kReasoning);
  EXPECT_GT(allowed_by(pet, n_vocab()).size(), 255u);
  say(pet, "a {cat}? </think </thi");
  EXPECT_EQ(pet.end(), Constraint::End::kNotYet);
  say(pet, "s></think>");
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('{')));
  pet.roll_back(1);
  EXPECT_GT(allowed_by(pet, n_vocab()).size(), 255u);
  say(pet, ">");
  say(pet, R"({"tame":true,"kind":"dog"})");
  EXPECT_EQ(pet.end(), Constraint::End::kMust);
}

TEST_F(Forms, reasoning_ends_at_the_mark_of_the_template) {
  for (const std::string_view chat_template :
       {"[THINK]", "<seed:think>", "<mm:think>", "<|START_THINKING|>"}) {
    AnswerSyntax syntax{.reasoning_marks = &find_reasoning_marks(chat_template)};
    AnswerConstraint pet = constraint(schema_form(kSchema), AnswerBegin::kReasoning, syntax);
    say(pet, "a cat] </think> >");
    EXPECT_GT(allowed_by(pet, n_vocab()).size(), 200u);
    say(pet, syntax.reasoning_marks->end_reasoning);
    EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('{')));
  }
}

TEST_F(Forms, a_model_may_open_reasoning_if_its_template_has_it) {
  AnswerConstraint pet = offering(schema_form(kSchema));
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('<'), byte_token('{')));
  std::vector<TokenId> tokens;
  pet.forced(100, tokens);
  EXPECT_TRUE(tokens.empty());
  const auto straight = pet.fork();
  say(*straight, R"({"tame":true,"kind":"dog"})");
  EXPECT_EQ(straight->end(), Constraint::End::kMust);
  say(pet, "<");
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('t')));
  pet.forced(100, tokens);
  EXPECT_EQ(tokens.size(), 6u);  // think>
  say(pet, "think>{ a cat </think>");
  EXPECT_EQ(pet.end(), Constraint::End::kNotYet);
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('{')));
  pet.roll_back(static_cast<uint32_t>(std::string_view("<think>{ a cat </think>").size()));
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('<'), byte_token('{')));
  say(pet, R"({"tame":true,"kind":"dog"})");
  EXPECT_EQ(pet.end(), Constraint::End::kMust);
}

TEST_F(Forms, a_mark_without_its_own_token_opens_no_reasoning) {
  AnswerConstraint pet = constraint(schema_form(kSchema), AnswerBegin::kText, {.may_reason = true});
  EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(byte_token('{')));
}

TEST_F(Forms, a_mark_that_the_grammar_allows_opens_no_reasoning) {
  AnswerConstraint tag = offering({.kind = Kind::kRegex, .text = "<[a-z]+>"});
  say(tag, "<tag>");
  EXPECT_EQ(tag.end(), Constraint::End::kMust);
}

TEST_F(Forms, in_channels_the_form_is_of_the_last_message) {
  AnswerConstraint pet =
      constraint(schema_form(kSchema), AnswerBegin::kText, {.has_channels = true});
  const auto take_forced = [&] {
    std::vector<TokenId> tokens;
    pet.forced(100, tokens);
    std::string text;
    for (const TokenId token : tokens) {
      EXPECT_THAT(allowed_by(pet, n_vocab()), ElementsAre(token));
      EXPECT_EQ(pet.end(), Constraint::End::kNotYet);
      pet.advance(token);
      text += rig.tokenizer().piece(token, Tokenizer::Special::kHide);
    }
    return text;
  };
  EXPECT_THAT(take_forced(), HasSubstr("<|channel|>analysis<|message|>"));
  EXPECT_GT(allowed_by(pet, n_vocab()).size(), 200u);
  say(pet, "a cat? <|end");
  pet.roll_back(5);
  say(pet, "<|end|>");
  EXPECT_THAT(take_forced(), HasSubstr("<|start|>assistant<|channel|>final<|message|>"));
  say(pet, R"({"tame":true,"kind":"dog"})");
  EXPECT_EQ(pet.end(), Constraint::End::kMust);
}

TEST_F(Forms, in_channels_a_form_may_bring_the_header_of_its_message) {
  StructuredOutput form = schema_form(kSchema);
  form.includes_header = true;
  AnswerConstraint pet = constraint(form, AnswerBegin::kText, {.has_channels = true});
  std::vector<TokenId> tokens;
  pet.forced(100, tokens);
  for (const TokenId token : tokens) pet.advance(token);
  say(pet, "a cat?<|end|>");
  tokens.clear();
  pet.forced(100, tokens);
  std::string text;
  for (const TokenId token : tokens)
    text += rig.tokenizer().piece(token, Tokenizer::Special::kHide);
  EXPECT_THAT(text, HasSubstr("<|start|>assistant"));
  EXPECT_EQ(text.find("final"), text.npos);
}

TEST_F(Forms, keywords_dropped_by_relaxing_are_reported) {
  const std::string schema = R"({"type":"string","pattern":"(a)\\1"})";
  EXPECT_FALSE(rig.error_of(request_for(schema_form(schema))).message.empty());
  StructuredOutput relaxed = schema_form(schema);
  relaxed.strictness = StructuredOutput::Strictness::kRelaxed;
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto completion = rig.service().complete(request_for(relaxed), sink);
  ASSERT_TRUE(completion.has_value());
  ASSERT_EQ((*completion)->relaxed().size(), 1u);
  EXPECT_THAT((*completion)->relaxed()[0], HasSubstr("/pattern"));
  ASSERT_TRUE(sink->wait_until_done());
}

}  // namespace
}  // namespace kvik
