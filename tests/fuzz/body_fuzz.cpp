// JSON bodies of every dialect: a call or a refusal that names what is wrong. The first byte says
// which dialect.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/dialects/chat/chat_request.h"
#include "server/dialects/completions/completions_request.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/messages/messages_request.h"
#include "server/dialects/ollama/ollama_request.h"
#include "server/dialects/request_body.h"
#include "server/dialects/responses/responses_request.h"
#include "service/structured_output/grammar_builder.h"
#include "service/template_values.h"

namespace {

using namespace kvik;

// Reads all that a template could be given, and makes a prompt of it.
class TemplateReader final : public ServiceApi {
 public:
  Result<std::unique_ptr<Completion>> complete(CompletionRequest,
                                               std::shared_ptr<CompletionSink>) override {
    return fail(ErrorCode::kExhausted, "nothing runs here");
  }
  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest,
                                            std::shared_ptr<EmbeddingSink>) override {
    return fail(ErrorCode::kExhausted, "nothing runs here");
  }
  std::vector<TokenId> tokenize(std::string_view text, const TokenizeOptions&) const override {
    return {text.begin(), text.end()};
  }
  Result<std::string> detokenize(std::span<const TokenId>) const override { return ""; }
  Result<std::string> apply_template(const ChatRequest&) const override { return ""; }
  Result<ChatPrompt> chat_prompt(const ChatRequest& request) const override {
    CHECK(!request.messages.empty());
    for (const Message& message : request.messages)
      CHECK(template_value(message).dict()->find(std::string_view("role")));
    for (const Json& tool : request.tools) CHECK(template_value(tool).dict());
    ChatPrompt prompt{.ids = {static_cast<TokenId>(request.messages.size())}};
    if (request.tools.empty()) return prompt;
    const ToolFormat& format = tool_formats()[request.messages.size() % tool_formats().size()];
    prompt.answer_syntax.calls = {&format};
    prompt.answer_syntax.call_syntax = &find_syntax(format, "");
    return prompt;
  }
  const ModelCard& card() const override { return card_; }
  EngineSnapshot snapshot() const override { return {}; }
  Result<void> watch(const std::shared_ptr<LiveSink>&) override { return {}; }

 private:
  const ModelCard card_{.id = "fuzz", .architecture = {}, .n_ctx_max = 64, .n_vocab = 256};
};

void check(const Error& error) { CHECK(!error.message.empty() && error.message.size() < 1000); }

void check(const Result<CompletionCall>& call) {
  if (!call) return check(call.error());
  CHECK(!call->requests.empty());
  // Grammars of ours are sound, whatever the schemas in them say.
  const auto& form = call->requests.front().form;
  const bool is_ours = form && (form->param == "tools" || form->param == "tool_choice");
  if (!is_ours) return;
  using Strictness = constrain::SchemaOptions::Strictness;
  constrain::SchemaOptions options;
  options.limits.max_work = 400'000;
  if (form->strictness == StructuredOutput::Strictness::kRelaxed) {
    options.strictness = Strictness::kRelaxed;
  }
  options.language = constrain::SchemaOptions::Language::kCanonical;
  if (const auto parsed = build_grammar(form->rules, options); !parsed) check(parsed.error());
}

void check(const Result<OllamaCall>& parsed) {
  if (!parsed) return check(parsed.error());
  if (parsed->kind == OllamaCall::Kind::kAnswer) check(Result<CompletionCall>(parsed->call));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  if (n_bytes == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, n_bytes - 1);
  const TemplateReader service;
  ByteShare share;
  JsonBudget budget{.n_ctx = service.card().n_ctx_max, .share = share};
  const RequestBody body = parse_body(budget, text);
  CHECK(budget.has_room && (!budget.fault || !body.object));
  if (budget.fault) {
    check(*budget.fault);
    return 0;
  }
  // Arguments of tool calls count as text and as what they say.
  CHECK(budget.weight.text_bytes + budget.weight.n_numbers <= 2 * text.size());
  switch (data[0] % 10) {
    case 0:
      check(parse_completions_call(service, body));
      break;
    case 1:
      check(parse_chat_call(service, body));
      break;
    case 2:
      check(parse_messages_call(service, body));
      break;
    case 3:
      if (const auto parsed = parse_responses_call(service, body)) {
        check(parsed->call);
      } else {
        check(parsed.error());
      }
      break;
    case 4: {
      const auto call = parse_embeddings_call(service, body);
      if (!call) check(call.error());
      if (call) CHECK(!call->requests.empty());
      break;
    }
    case 5:
      check(parse_generate_call(service, body));
      break;
    case 6:
      check(parse_ollama_chat_call(service, body));
      break;
    default:
      if (const auto call = parse_embed_call(service, body, "input"); !call) check(call.error());
  }
  return 0;
}
