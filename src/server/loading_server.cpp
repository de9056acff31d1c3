#include "server/loading_server.h"

#include <utility>

#include "server/operate/load_progress.h"
#include "server/server.h"
#include "server/unavailable_service.h"

namespace kvik {
namespace {

constexpr uint32_t kContext = 2048;  // the server derives its bounds from it

}  // namespace

class LoadingServer::Impl {
 public:
  Result<void> start(const ListenSocket& socket, ServerOptions options) {
    options.loading = &progress_;
    options.access_log.clear();
    options.responses = nullptr;
    options.model_library = nullptr;
    // Remaining connections must not delay the server that follows.
    options.linger = std::chrono::milliseconds(100);
    options.abort_grace = std::chrono::milliseconds(200);
    TRY_ASSIGN(server_, Server::start(service_, options, socket));
    return {};
  }

  void show(uint64_t n_done, uint64_t n_all) { progress_.set(n_done, n_all); }

 private:
  LoadProgress progress_;
  // The router rejects requests before they reach it.
  UnavailableService service_{"the model is being loaded", kContext};
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
