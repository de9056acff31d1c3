#include "server/loading_server.h"

#include <utility>

#include "server/operate/load_progress.h"
#include "server/server.h"
#include "service/service_api.h"

namespace kvik {
namespace {

std::unexpected<Error> still_loading() {
  return fail(ErrorCode::kUnavailable, "the model is being loaded");
}

// A service without a model. The router rejects requests before they reach it.
class LoadingService final : public ServiceApi {
 public:
  LoadingService() { card_.n_ctx_max = kContext; }

  Result<std::unique_ptr<Completion>> complete(CompletionRequest,
                                               std::shared_ptr<CompletionSink>) override {
    return still_loading();
  }
  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest,
                                            std::shared_ptr<EmbeddingSink>) override {
    return still_loading();
  }
  std::vector<TokenId> tokenize(std::string_view, const TokenizeOptions&) const override {
    return {};
  }
  Result<std::string> detokenize(std::span<const TokenId>) const override {
    return still_loading();
  }
  Result<std::string> apply_template(const ChatRequest&) const override { return still_loading(); }
  Result<ChatPrompt> chat_prompt(const ChatRequest&) const override { return still_loading(); }
  const ModelCard& card() const override { return card_; }
  EngineSnapshot snapshot() const override { return {}; }
  Result<void> watch(const std::shared_ptr<LiveSink>&) override { return still_loading(); }

 private:
  static constexpr uint32_t kContext = 2048;  // the server derives its bounds from it

  ModelCard card_;
};

}  // namespace

class LoadingServer::Impl {
 public:
  Result<void> start(const ListenSocket& socket, ServerOptions options) {
    options.loading = &progress_;
    options.access_log.clear();
    options.responses = nullptr;
    options.library = nullptr;
    // Remaining connections must not delay the server that follows.
    options.linger = std::chrono::milliseconds(100);
    options.abort_grace = std::chrono::milliseconds(200);
    TRY_ASSIGN(server_, Server::start(service_, options, socket));
    return {};
  }

  void show(uint64_t n_done, uint64_t n_all) { progress_.set(n_done, n_all); }

 private:
  LoadProgress progress_;
  LoadingService service_;
  std::unique_ptr<Server> server_;
};

LoadingServer::LoadingServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadingServer::~LoadingServer() = default;

Result<std::unique_ptr<LoadingServer>> LoadingServer::start(const ListenSocket& socket,
                                                            ServerOptions options) {
  auto impl = std::make_unique<Impl>();
  TRY(impl->start(socket, std::move(options)));
  return std::unique_ptr<LoadingServer>(new LoadingServer(std::move(impl)));
}

void LoadingServer::show(uint64_t n_done, uint64_t n_all) { impl_->show(n_done, n_all); }

}  // namespace kvik
