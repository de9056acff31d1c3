#include "server/dialects/ollama/ollama_request.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/fake_service.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

using Kind = OllamaCall::Kind;

class OllamaRequest : public testing::Test {
 protected:
  CompletionRequest generate(const std::string& fields) {
    auto call = parse_generate_call(service, ParsedBody("{" + fields + "}"));
    if (!call) ADD_FAILURE() << call.error().message;
    return call ? call->call.requests.at(0) : CompletionRequest();
  }
  CompletionRequest with_options(const std::string& options) {
    return generate(R"("prompt":"Hi","options":{)" + options + "}");
  }
  Error generate_error(const std::string& fields) {
    const auto call = parse_generate_call(service, ParsedBody("{" + fields + "}"));
    EXPECT_FALSE(call.has_value()) << fields;
    return call ? Error() : call.error();
  }
  std::string chat_prompt(const std::string& fields) {
    auto call = parse_ollama_chat_call(service, ParsedBody("{" + fields + "}"));
    if (!call) return "error: " + call.error().message;
    return text_of_prompt(call->call.requests.at(0));
  }
  static std::string text_of_prompt(const CompletionRequest& request) {
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(request.prompt))
      text += static_cast<char>(id);
    return text;
  }

  FakeService service;
};

TEST_F(OllamaRequest, the_default_sampling_is_ollamas) {
  const SamplingParams sampling = generate(R"("prompt":"Hi")").engine.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.8f);
  EXPECT_EQ(sampling.top_k, 40u);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1);
}

TEST_F(OllamaRequest, options_set_sampling_seed_stop_and_length) {
  const CompletionRequest request =
      with_options(R"("temperature":0.5,"top_k":7,"top_p":0.25,"min_p":0.125,"repeat_penalty":1.5,)"
                   R"("presence_penalty":0.75,"frequency_penalty":-0.5,"seed":42,"num_predict":9,)"
                   R"("stop":["a","b"],"num_ctx":64,"mirostat":2,"num_gpu":"many")");
  const SamplingParams& sampling = request.engine.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 7u);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.25f);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.125f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 0.75f);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(request.seed, 42u);
  EXPECT_EQ(request.max_tokens, 9u);
  EXPECT_EQ(request.output.stop, (std::vector<std::string>{"a", "b"}));
}

TEST_F(OllamaRequest, negative_numbers_are_no_limits_and_no_seed) {
  const CompletionRequest request = with_options(R"("num_predict":-2,"seed":-1,"top_k":-1)");
  EXPECT_FALSE(request.max_tokens);
  EXPECT_FALSE(request.seed);
  EXPECT_EQ(with_options(R"("num_predict":0)").max_tokens, std::nullopt);
}

TEST_F(OllamaRequest, a_top_p_of_zero_is_greedy) {
  const SamplingParams sampling = with_options(R"("top_p":0)").engine.sampling;
  EXPECT_EQ(sampling.top_k, 1u);
  EXPECT_FLOAT_EQ(sampling.top_p, 1);
}

TEST_F(OllamaRequest, repeat_last_n_is_64_or_as_given) {
  const auto sampling = [&](const char* n) {
    return with_options(std::string(R"("repeat_penalty":1.5)") + n).engine.sampling;
  };
  EXPECT_EQ(sampling("").penalty_last_n, 64u);
  EXPECT_EQ(sampling(R"(,"repeat_last_n":9)").penalty_last_n, 9u);
  EXPECT_EQ(sampling(R"(,"repeat_last_n":-1)").penalty_last_n, UINT32_MAX);
  EXPECT_FALSE(has_penalties(sampling(R"(,"repeat_last_n":0)")));
}

TEST_F(OllamaRequest, options_have_its_other_samplers) {
  const SamplingParams sampling =
      with_options(R"("typical_p":0.7,"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.25)")
          .engine.sampling;
  EXPECT_FLOAT_EQ(sampling.typical_p, 0.7f);
  EXPECT_EQ(sampling.mirostat.version, 2u);
  EXPECT_FLOAT_EQ(sampling.mirostat.tau, 4);
  EXPECT_FLOAT_EQ(sampling.mirostat.eta, 0.25f);
}

TEST_F(OllamaRequest, an_option_of_a_wrong_type_is_named) {
  EXPECT_EQ(generate_error(R"("prompt":"Hi","options":{"temperature":"hot"})").message,
            "options.temperature must be a number, not a string");
  EXPECT_EQ(generate_error(R"("prompt":"Hi","options":[])").message,
            "options must be an object, not an array");
  EXPECT_EQ(generate_error(R"("prompt":"Hi","options":{"stop":[1]})").param, "stop");
}

TEST_F(OllamaRequest, a_model_has_the_same_name_with_latest) {
  EXPECT_EQ(generate(R"("prompt":"Hi","model":"tiny/model:latest")").model, "tiny/model:latest");
  EXPECT_EQ(generate(R"("prompt":"Hi","name":"tiny/model")").model, "tiny/model");
  EXPECT_EQ(generate(R"("prompt":"Hi","model":"")").model, std::nullopt);
  const Error error = generate_error(R"("prompt":"Hi","model":"tiny/model:q4")");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message,
            "model 'tiny/model:q4' not found; 'tiny/model' is served (kvik serve --alias '*' "
            "answers to any name)");
}

TEST_F(OllamaRequest, a_prompt_is_a_conversation_with_its_system_message) {
  EXPECT_EQ(text_of_prompt(generate(R"("prompt":"Hi","system":"Be kind.")")),
            "system: Be kind.\nuser: Hi\nassistant:");
}

TEST_F(OllamaRequest, a_raw_prompt_is_the_whole_text) {
  const CompletionRequest request = generate(R"("prompt":"<s>Hi","raw":true)");
  EXPECT_EQ(std::get<std::string>(request.prompt), "<s>Hi");
  EXPECT_FALSE(request.output.answer_begin);
  EXPECT_EQ(generate_error(R"("prompt":"Hi","raw":true,"system":"s")").message,
            "raw mode does not support template, system, or context");
}

TEST_F(OllamaRequest, a_template_replaces_the_models) {
  const auto ids = std::get<std::vector<TokenId>>(
      generate(R"("prompt":"Hi","system":"S","template":"[{{.System}}]{{.Prompt}}>{{.Response}}!")")
          .prompt);
  const std::vector<TokenId> expected = {1, 2, '[', 'S', ']', 'H', 'i', '>'};
  EXPECT_EQ(ids, expected);
}

TEST_F(OllamaRequest, a_context_is_put_before_the_prompt) {
  const auto ids =
      std::get<std::vector<TokenId>>(generate(R"("prompt":"Hi","context":[1,70,71])").prompt);
  ASSERT_GT(ids.size(), 3u);
  EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.begin() + 4),
            (std::vector<TokenId>{1, 70, 71, 'u'}));
  const auto of_template = std::get<std::vector<TokenId>>(
      generate(R"("prompt":"Hi","context":[1,70],"template":"{{.Prompt}}")").prompt);
  EXPECT_EQ(of_template, (std::vector<TokenId>{1, 70, 2, 'H', 'i'}));  // one beginning of sequence
}

TEST_F(OllamaRequest, the_answer_of_a_generation_counts_its_context) {
  const auto call =
      parse_generate_call(service, ParsedBody(R"({"prompt":"Hi","options":{"num_predict":5}})"));
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->call.requests.at(0).output.return_token_ids);
  EXPECT_EQ(call->call.kept_bytes, (call->context->size() + 5) * sizeof(TokenId));
}

TEST_F(OllamaRequest, a_suffix_needs_tokens_for_it) {
  const Error error = generate_error(R"("prompt":"a","suffix":"b")");
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_EQ(error.message,
            "tiny/model does not support suffix: its vocabulary has no fill-in-the-middle tokens");
}

TEST_F(OllamaRequest, no_prompt_loads_and_keep_alive_zero_unloads) {
  const auto kind = [&](const char* text) {
    const auto call = parse_generate_call(service, ParsedBody(text));
    const auto chat = parse_ollama_chat_call(service, ParsedBody(text));
    EXPECT_TRUE(call && chat && call->kind == chat->kind) << text;
    return call ? call->kind : Kind::kAnswer;
  };
  EXPECT_EQ(kind("{}"), Kind::kLoad);
  EXPECT_EQ(kind(R"({"keep_alive":"5m"})"), Kind::kLoad);
  EXPECT_EQ(kind(R"({"keep_alive":-1})"), Kind::kLoad);
  EXPECT_EQ(kind(R"({"keep_alive":"1h30m0.5s"})"), Kind::kLoad);
  EXPECT_EQ(kind(R"({"keep_alive":0})"), Kind::kUnload);
  EXPECT_EQ(kind(R"({"keep_alive":"0s"})"), Kind::kUnload);
}

TEST_F(OllamaRequest, a_keep_alive_that_is_no_duration_is_refused) {
  for (const char* value : {R"("soon")", R"("5 minutes")", R"("")", "true", "[]"}) {
    EXPECT_EQ(generate_error(std::string(R"("prompt":"Hi","keep_alive":)") + value).param,
              "keep_alive")
        << value;
  }
}

TEST_F(OllamaRequest, format_is_json_or_a_schema) {
  using FormKind = StructuredOutput::Kind;
  EXPECT_FALSE(generate(R"("prompt":"Hi","format":"")").form);
  EXPECT_EQ(generate(R"("prompt":"Hi","format":"json")").form->kind, FormKind::kJsonObject);
  const auto form =
      generate(R"("prompt":"Hi","format":{"type":"object","minProperties":1.0})").form;
  EXPECT_EQ(form->kind, FormKind::kJsonSchema);
  EXPECT_EQ(form->text, R"({"type":"object","minProperties":1.0})");
  EXPECT_EQ(generate_error(R"("prompt":"Hi","format":"xml")").message,
            "format is \"xml\", expected \"json\" or a JSON schema");
  EXPECT_EQ(generate_error(R"("prompt":"Hi","format":[1])").param, "format");
}

TEST_F(OllamaRequest, think_is_a_flag_or_an_effort) {
  const auto read = [&](const char* value) {
    return parse_generate_call(service,
                               ParsedBody(std::string(R"({"prompt":"Hi","think":)") + value + "}"));
  };
  for (const char* value : {"true", "false", R"("low")", R"("high")", R"("")", "null"})
    EXPECT_TRUE(read(value).has_value()) << value;
  for (const char* value : {"1", R"("deep")", "{}"}) {
    const auto call = read(value);
    ASSERT_FALSE(call.has_value()) << value;
    EXPECT_EQ(call.error().param, "think");
  }
}

TEST_F(OllamaRequest, images_are_refused) {
  EXPECT_EQ(generate_error(R"("prompt":"Hi","images":["aGk="])").message,
            "images are not supported; send text");
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"user","content":"Hi","images":["aGk="]}])"),
            "error: images are not supported; send text");
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"user","content":"Hi","images":[]}])"),
            "user: Hi\nassistant:");
}

TEST_F(OllamaRequest, a_conversation_has_calls_and_results) {
  EXPECT_EQ(
      chat_prompt(R"("messages":[{"role":"user","content":"Paint."},)"
                  R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"paint",)"
                  R"("arguments":{"colour":"red","n":2}}}]},)"
                  R"({"role":"tool","content":"painted","tool_name":"paint"}],)"
                  R"("tools":[{"type":"function","function":{"name":"paint"}}])"),
      "user: Paint.\nassistant: \ncall paint colour=red n=2\ntool: painted\ntool paint\n"
      "assistant:");
}

TEST_F(OllamaRequest, the_last_message_of_the_assistant_is_continued) {
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"user","content":"Hi"},)"
                        R"({"role":"assistant","content":"Hel"}])"),
            "user: Hi\nassistant: Hel\n");
}

TEST_F(OllamaRequest, a_message_that_is_wrong_is_named) {
  EXPECT_EQ(chat_prompt(R"("messages":"Hi")"), "error: messages must be an array, not a string");
  EXPECT_EQ(chat_prompt(R"("messages":[{"content":"Hi"}])"), "error: a message has no role");
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"user","content":[{"type":"text"}]}])"),
            "error: messages.content must be a string, not an array");
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"assistant","tool_calls":[{"function":)"
                        R"({"name":"f","arguments":"{}"}}]}])"),
            "error: tool_calls.function.arguments must be an object, not a string");
  EXPECT_EQ(chat_prompt(R"("messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"x"}])"),
            "error: tools[0].function is missing");
}

TEST_F(OllamaRequest, texts_to_embed_are_cut_to_the_context) {
  const std::string text(300, 'x');
  using Sizes = std::vector<std::pair<size_t, std::optional<uint32_t>>>;  // and truncate_to
  const auto sizes = [&](const std::string& fields) {
    const auto parsed = parse_embed_call(service, ParsedBody("{" + fields + "}"), "input");
    Sizes out;
    if (!parsed) return out;
    for (const EmbeddingRequest& request : parsed->call.requests)
      out.emplace_back(request.engine.prompt.size(), request.truncate_to);
    return out;
  };
  EXPECT_EQ(sizes(R"("input":["ab",")" + text + "\"]"), (Sizes{{3, 0}, {301, 0}}));
  EXPECT_EQ(sizes(R"("truncate":false,"input":")" + text + "\""), (Sizes{{301, std::nullopt}}));
  EXPECT_TRUE(sizes(R"("input":"")").empty());
  EXPECT_TRUE(sizes(R"("input":[])").empty());
}

TEST_F(OllamaRequest, biases_are_read_in_options) {
  const std::vector<std::pair<TokenId, float>> biases = {{7, 1.5f}, {9, -100.0f}};
  EXPECT_EQ(with_options(R"("logit_bias":{"7":1.5,"9":-100})").engine.sampling.logit_bias, biases);
  EXPECT_EQ(generate_error(R"("prompt":"a","logit_bias":{"7":1})").message,
            "logit_bias is not read here: put it into options");
  EXPECT_EQ(generate_error(R"("prompt":"a","options":{"logit_bias":3})").param, "logit_bias");
}

TEST_F(OllamaRequest, constraints_of_other_dialects_are_not_ignored) {
  for (const char* name : {"response_format", "guided_regex", "grammar"}) {
    const std::string field = std::string("\"prompt\":\"a\",\"") + name + "\":\"x\"";
    EXPECT_EQ(generate_error(field).message,
              std::string(name) + " is not read here: use format, \"json\" or a schema");
  }
}

TEST_F(OllamaRequest, an_attestation_is_not_ignored) {
  EXPECT_TRUE(generate(R"("prompt":"a","kvik":{"attest":true})").output.attests);
  EXPECT_FALSE(generate(R"("prompt":"a")").output.attests);
}

TEST_F(OllamaRequest, texts_to_embed_are_strings) {
  const auto error = [&](const char* text, const char* field) {
    const auto parsed = parse_embed_call(service, ParsedBody(text), field);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_EQ(error(R"({"input":3})", "input"),
            "input must be a string or an array of strings, not a number");
  EXPECT_EQ(error(R"({"input":["a",{}]})", "input"),
            "input must be a string or an array of strings, not an object");
  EXPECT_EQ(error(R"({"prompt":["a"]})", "prompt"), "prompt must be a string, not an array");
}

}  // namespace
}  // namespace kvik
