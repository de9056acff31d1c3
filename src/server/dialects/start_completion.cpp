#include "server/dialects/start_completion.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "server/dialects/completion_reply.h"
#include "server/http/auth.h"
#include "server/http/random_id.h"
#include "server/http/status.h"
#include "service/adapters/adapter_registry.h"
#include "service/answer_size.h"

namespace kvik {
namespace {

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

AnswerEnvelope envelope_of(const CompletionCall& call, const ServiceApi& service) {
  const CompletionRequest& first = call.requests.front();
  AnswerEnvelope envelope;
  // A client that chose an adapter gets the name that it used.
  const bool has_adapter =
      first.model && adapter_name(service.adapters(), service.card(), *first.model);
  envelope.model = has_adapter ? *first.model : service.card().id.text();
  envelope.created_s = unix_seconds();
  envelope.wants_logprobs = first.engine.n_logprobs.has_value();
  envelope.wants_prompt_logprobs = first.output.n_prompt_logprobs.has_value();
  envelope.wants_token_ids = first.output.return_token_ids;
  envelope.include_usage = call.include_usage;
  envelope.names_function_call = call.names_function_call;
  envelope.n_marked = first.pin_ttl ? UINT32_MAX : 0;
  for (const Pin& pin : first.engine.pins)
    envelope.n_marked = std::max(envelope.n_marked, pin.n_tokens);
  return envelope;
}

// Returns a function that finds the text around a token of a rendered conversation. Borrows the
// service, which outlives all answers.
FindText text_finder(const ServiceApi& service, const CompletionCall& call) {
  auto prompts = std::make_shared<std::vector<std::vector<TokenId>>>();
  for (const CompletionRequest& request : call.requests) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt);
    const bool is_chat = ids && request.output.answer_begin;
    prompts->push_back(is_chat ? *ids : std::vector<TokenId>());
  }
  return [&service, prompts = std::move(prompts)](size_t prompt,
                                                  uint32_t position) -> std::optional<TextAround> {
    constexpr size_t kEarlier = 1000, kBefore = 24, kAfter = 16;  // tokens
    if (prompt >= prompts->size() || position >= (*prompts)[prompt].size()) return std::nullopt;
    const std::span<const TokenId> ids = (*prompts)[prompt];
    const size_t begin = position - std::min<size_t>(position, kBefore);
    const size_t n_earlier = std::min(begin, kEarlier);
    const auto earlier = service.detokenize(ids.subspan(begin - n_earlier, n_earlier));
    const auto before = service.detokenize(ids.subspan(begin, position - begin));
    const auto after =
        service.detokenize(ids.subspan(position, std::min(kAfter, ids.size() - position)));
    if (!earlier || !before || !after) return std::nullopt;
    return TextAround{valid_utf8(*before), valid_utf8(*after), valid_utf8(*earlier)};
  };
}

// A request of a session.
struct SessionRequest {
  SessionName name;
  uint32_t n_choices = 1;
  FindText find_text;
  // Its salt and prompt; std::nullopt: not kept. The pages of an adapter cannot be exported, and of
  // several choices, only one is in the next prompt.
  std::optional<SessionTokens> kept;
};

SessionRequest session_request(const CompletionCall& call, const ServiceApi& service) {
  const CompletionRequest& first = call.requests.front();
  SessionRequest session{.name = call.session, .n_choices = first.n, .find_text = {}, .kept = {}};
  const auto* ids = std::get_if<std::vector<TokenId>>(&first.prompt);
  const bool has_adapter =
      first.model && adapter_name(service.adapters(), service.card(), *first.model);
  if (ids && first.n == 1 && call.requests.size() == 1 && !has_adapter) {
    session.kept = SessionTokens{.salt = first.engine.cache_salt,
                                 .all = *ids,
                                 .prompt_tokens = static_cast<uint32_t>(ids->size())};
  }
  return session;
}

// Returns a function that adds a finished request to its session.
std::function<void(std::span<const Usage>, std::span<const TokenId>)> session_recorder(
    std::shared_ptr<KeyAccount> account, SessionRequest session) {
  return [account = std::move(account), session = std::move(session)](
             std::span<const Usage> usages, std::span<const TokenId> answer) mutable {
    const auto& [name, n_choices, find_text, kept] = session;
    const Usage& usage = usages.front();
    std::string_view part;
    if (account->sessions().lost_tokens(name, usage) > 0 && usage.cache.position &&
        usage.cache.miss == MissReason::kDiverged) {
      const auto text = find_text(0, *usage.cache.position);
      if (text) part = changing_part(*text);
    }
    account->sessions().add(name, usage, n_choices, part, unix_seconds());
    if (!session.kept) return;
    session.kept->all.insert(session.kept->all.end(), answer.begin(), answer.end());
    account->sessions().keep(name, *std::exchange(session.kept, std::nullopt));
  };
}

// Sets tenant, salt and priority scope by the API key. A salt in the body is combined with the
// key's.
void apply_key(const ApiKey& key, CompletionCall& call) {
  for (CompletionRequest& request : call.requests) {
    request.engine.tenant = key.name;
    request.engine.cache_salt = salt_of(key, request.engine.cache_salt);
    request.engine.ranks = ranks_of(key);
  }
}

std::optional<Attestation> attestation_of(const ModelCard& card,
                                          const RunningCompletions& running) {
  Attestation out{card.weights.digest, card.numerics, card.kv_type, {}};
  for (const auto& completion : running.completions) {
    auto request = completion->attested();
    if (!request) return std::nullopt;
    out.requests.push_back(std::move(request));
  }
  return out;
}

CacheReach reach_of(const ApiKey* key) {
  if (!key) return CacheReach::kAllClients;
  return key->cache_salt.empty() ? CacheReach::kOtherTenants : CacheReach::kOwnSalt;
}

// Returns the bytes of an attested request: of its numbers, as JSON values and as text.
size_t attested_bytes(const AttestedRequest& request) {
  constexpr size_t kNumber = 48, kList = 64;
  size_t n_bytes = (request.prompt.size() + 2 * request.sampling.logit_bias.size()) * kNumber;
  for (const auto& ids : request.sampling.banned) n_bytes += kList + ids.size() * kNumber;
  for (const auto& ids : sorted_breakers(request.sampling.dry))
    n_bytes += kList + ids.size() * kNumber;
  return n_bytes;
}

// Returns the memory of a prompt for each of its choices, without pages: tokens in the engine, for
// explanations and for the session, their counts, repeated text; and of the choice itself.
size_t running_bytes(const AnswerShape& shape, size_t prompt_tokens) {
  constexpr size_t kChoice = size_t{4} << 10;
  constexpr size_t kToken = 20;
  constexpr size_t kEchoedToken = 16;
  return shape.n * (kChoice + prompt_tokens * (kToken + (shape.echo ? kEchoedToken : 0)));
}

// Returns the new tokens of each choice that count in the size of an answer: those of a stream are
// sent as they arrive.
uint64_t new_tokens(const CompletionCall& call, const CompletionRequest& request, uint64_t n_ctx) {
  return call.is_stream ? 0 : std::min(request.max_tokens.value_or(n_ctx), n_ctx);
}

// Checks the part of the answer's size that is known before tokenizing.
Result<void> check_before(const CompletionCall& call, uint64_t n_ctx) {
  AnswerSize size;
  for (const CompletionRequest& request : call.requests) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt);
    size += answer_size(request, ids ? ids->size() : 0, new_tokens(call, request, n_ctx));
  }
  return check_answer_size(size, call.requests.front());
}

// Limits a whole answer with log probabilities if the request does not.
void limit_answer(CompletionCall& call) {
  for (CompletionRequest& request : call.requests) {
    if (call.is_stream || request.max_tokens) continue;
    const uint64_t most = tokens_with_logprobs(request, call.requests.size());
    if (most < UINT64_MAX) request.max_tokens = most;
  }
}

// A whole answer is bounded by max_tokens and by the ledger.
std::optional<size_t> buffer_bytes(const ServerOptions& options, const CompletionCall& call) {
  constexpr size_t kWithLogprobs = 16;  // weight of a token with logprobs, in plain tokens
  constexpr size_t kMaxBytes = size_t{2} << 20;
  if (!call.is_stream) return std::nullopt;
  const CompletionRequest& first = call.requests.front();
  const size_t n_choices = call.requests.size() * std::max(1u, first.n);
  const size_t bytes =
      options.stream_buffer_bytes * n_choices * (first.engine.n_logprobs ? kWithLogprobs : 1);
  return std::min(bytes, std::max(kMaxBytes, options.stream_buffer_bytes));
}

// Submits all or none: if one is rejected, those before it are canceled. Takes the requests.
Result<RunningCompletions> submit(const HandlerContext& context, CompletionCall& call,
                                  const ApiKey* key) {
  const uint64_t n_ctx = context.service.card().n_ctx_max;
  TRY(check_before(call, n_ctx));
  RunningCompletions running;
  running.mailbox = std::make_shared<CompletionMailbox>(
      call.requests.size(), buffer_bytes(context.options, call), ByteShare(context.memory.answers));
  running.share = ByteShare(context.memory.answers);
  // The call's own copy, the first two events of the answer and its last one.
  constexpr size_t kRepeats = 4;
  running.has_room = running.share.grow(kRepeats * call.kept_bytes + call.stored_bytes);
  AnswerSize size;
  uint32_t first_choice = 0;
  for (CompletionRequest& request : call.requests) {
    const AnswerShape shape = request;
    const uint64_t n_new = new_tokens(call, request, n_ctx);
    auto sink = std::make_shared<MailboxSink>(running.mailbox, context.accounts.of(key),
                                              running.completions.size(), first_choice);
    TRY_ASSIGN(auto completion, context.service.complete(std::move(request), std::move(sink)));
    running.relaxed = completion->relaxed();
    const uint32_t n_prompt = completion->prompt_tokens();
    running.completions.push_back(std::move(completion));
    first_choice += shape.n;
    size += answer_size(shape, n_prompt, n_new);
    TRY(check_answer_size(size, shape));
    const auto attested = running.completions.back()->attested();
    const size_t n_attested = attested ? attested_bytes(*attested) : 0;
    running.attested_bytes += n_attested;
    running.has_room =
        running.has_room && running.share.grow(running_bytes(shape, n_prompt) + n_attested);
    if (!running.has_room) break;
  }
  return running;
}

}  // namespace

std::chrono::seconds wait_of(const ServiceApi& service) {
  constexpr double kLongest = 120;
  const double wait_s = std::ceil(service.snapshot().queue_wait_s);
  return std::chrono::seconds(static_cast<int64_t>(std::clamp(wait_s, 1.0, kLongest)));
}

Error with_dialect_param(const AnswerDialect& dialect, Error error) {
  for (const auto& [ours, theirs] : dialect.renamed) {
    if (error.param != ours) continue;
    error.param = theirs;
    break;
  }
  return error;
}

namespace {

Reply start(const HandlerContext& context, const HttpRequest& request, CompletionCall call,
            const AnswerDialect& dialect) {
  const ApiKey* key = find_key(request, context.options);
  AnswerEnvelope envelope = envelope_of(call, context.service);
  envelope.id = random_id(dialect.id_prefix);
  envelope.request_id = request.id;
  envelope.prices = context.options.prices;
  const bool is_of_session = !call.session.conversation.empty();
  FindText find_text =
      call.explain_cache || is_of_session ? text_finder(context.service, call) : FindText();
  if (call.explain_cache) {
    envelope.explain_cache = reach_of(key);
    envelope.find_text = find_text;
  }
  call.session = with_session_header(std::move(call.session), request.header("x-session-id"));
  SessionRequest session;
  if (is_of_session) session = session_request(call, context.service);
  const bool collects_ids = session.kept.has_value();
  bool& returns_ids = call.requests.front().output.return_token_ids;
  const bool hides_ids = collects_ids && !returns_ids;
  returns_ids = returns_ids || collects_ids;
  const auto& form = call.requests.front().form;
  std::string form_param =
      form ? with_dialect_param(dialect, {.code = {}, .message = {}, .param = form->param}).param
           : "";
  auto running = submit(context, call, key);
  if (!running) {
    return error_response(with_dialect_param(dialect, running.error()), wait_of(context.service));
  }
  if (!running->has_room) return error_response(no_memory());
  if (is_of_session) {
    session.find_text = std::move(find_text);
    running->on_usages = session_recorder(context.accounts.of(key), std::move(session));
  }
  running->collects_ids = collects_ids;
  running->hides_ids = hides_ids;
  running->holds_calls = call.holds_calls;
  running->left_out = std::move(call.left_out);
  running->form_param = std::move(form_param);
  std::string id = envelope.id;
  envelope.attestation = attestation_of(context.service.card(), *running);
  auto writer = dialect.make_writer(std::move(envelope));
  if (call.is_stream)
    return std::make_unique<StreamedCompletion>(std::move(id), std::move(writer),
                                                std::move(*running));
  auto whole =
      std::make_unique<WholeCompletion>(std::move(id), std::move(writer), std::move(*running));
  if (dialect.detach) return dialect.detach(std::move(whole));
  return whole;
}

// A completion whose constraint must be compiled, or whose adapter must be loaded first. Borrows
// request and context.
class StartedLater final : public DeferredReply {
 public:
  StartedLater(const HandlerContext& context, const HttpRequest& request, CompletionCall call,
               AnswerDialect dialect, Kind kind = Kind::kQuick)
      : context_(context),
        request_(request),
        call_(std::move(call)),
        dialect_(std::move(dialect)),
        kind_(kind) {}

  Kind kind() const override { return kind_; }
  std::string tenant() const override { return call_.requests.front().engine.tenant; }

  // All requests of a call are alike.
  Reply make() override {
    if (kind_ == Kind::kQuick) {
      const auto is_compiled = context_.service.try_compile(call_.requests.front());
      if (!is_compiled) {
        return error_response(with_dialect_param(dialect_, is_compiled.error()),
                              wait_of(context_.service));
      }
      if (!*is_compiled) {
        return std::make_unique<StartedLater>(context_, request_, std::move(call_), dialect_,
                                              Kind::kSlow);
      }
    }
    return start(context_, request_, std::move(call_), dialect_);
  }

 private:
  const HandlerContext& context_;
  const HttpRequest& request_;
  CompletionCall call_;
  const AnswerDialect dialect_;
  const Kind kind_;
};

bool must_compile(const ServiceApi& service, const CompletionCall& call) {
  return service.must_compile(call.requests.front());  // all requests of a call are alike
}

bool must_read_adapter(const ServiceApi& service, const CompletionCall& call) {
  const auto& model = call.requests.front().model;
  if (!model) return false;
  const auto name = adapter_name(service.adapters(), service.card(), *model);
  return name && !service.adapters()->is_loaded(*name);
}

}  // namespace

Reply start_completion(const HandlerContext& context, const HttpRequest& request,
                       Result<CompletionCall> call, const AnswerDialect& dialect) {
  if (!call) return error_response(with_dialect_param(dialect, call.error()));
  if (call->requests.front().output.attests && !dialect.can_attest) {
    return error_response({.code = ErrorCode::kUnsupported,
                           .message = "kvik.attest is supported by /v1/completions and "
                                      "/v1/chat/completions only",
                           .param = "kvik.attest"});
  }
  if (const ApiKey* key = find_key(request, context.options)) apply_key(*key, *call);
  limit_answer(*call);
  if (must_compile(context.service, *call) || must_read_adapter(context.service, *call))
    return std::make_unique<StartedLater>(context, request, std::move(*call), dialect);
  return start(context, request, std::move(*call), dialect);
}

}  // namespace kvik
