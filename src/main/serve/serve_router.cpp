#include "main/serve/serve_router.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/log.h"
#include "base/process/interrupts.h"
#include "base/process/service_manager.h"
#include "base/process/watchdog.h"
#include "base/quantity.h"
#include "host/available_memory.h"
#include "host/build_info.h"
#include "host/models/folder_bytes.h"
#include "host/models/model_manager.h"
#include "main/exit_code.h"
#include "server/proxy/proxy_reply.h"
#include "server/server.h"
#include "server/unavailable_service.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

// Bounds on requests are those of a model with this context; the model's server applies its own.
constexpr uint32_t kContext = 1 << 18;
constexpr std::string_view kMemoryFolder = "/dev/shm";
constexpr std::string_view kWarmPrefix = "kvik-warm-";
// The smallest folder that is worth keeping, and that a disk tier accepts.
constexpr uint64_t kLeastWarm = uint64_t{16} << 20;

// Opens a folder of this user and locks it; not open if that fails. A router holds the lock on its
// folder as long as it runs: process ids repeat in containers that share /dev/shm.
FileDescriptor lock_folder(const std::string& path) {
  struct stat status {};
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const bool is_locked = folder.is_open() && fstat(folder.get(), &status) == 0 &&
                         status.st_uid == getuid() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
  return is_locked ? std::move(folder) : FileDescriptor();
}

// A folder in memory in which unloaded models leave their KV pages. It is removed at the end.
class WarmFolder {
 public:
  // Removes the folders of routers of this user that have ended without doing so.
  WarmFolder() {
    std::error_code error;
    const std::string own_prefix = fmt::format("{}{}-", kWarmPrefix, getuid());
    for (const auto& entry : fs::directory_iterator(kMemoryFolder, error)) {
      if (!entry.path().filename().string().starts_with(own_prefix)) continue;
      std::error_code ignored;
      if (lock_folder(entry.path()).is_open()) fs::remove_all(entry.path(), ignored);
    }
    // A router that starts at the same moment may lock and remove the folder before this one does.
    constexpr int kTries = 10;
    for (int i = 0; i < kTries && !lock_.is_open(); ++i) {
      path_ = fmt::format("{}/{}{}-XXXXXX", kMemoryFolder, own_prefix, getpid());
      if (!mkdtemp(path_.data())) break;
      lock_ = lock_folder(path_);
      if (!fs::exists(path_, error)) lock_ = FileDescriptor();
    }
    if (lock_.is_open()) return;
    log::warn("KV pages of unloaded models are not kept: {}: {}", path_, std::strerror(errno));
    path_.clear();
  }
  ~WarmFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WarmFolder(const WarmFolder&) = delete;
  WarmFolder& operator=(const WarmFolder&) = delete;

  // Empty if the system has no such folder.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor lock_;
};

// Returns a name that can be a folder: letters, digits, '.', '_' and '-' stay, others are escaped.
std::string folder_name(std::string_view model) {
  std::string name;
  for (const char c : model) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                          (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
                          (c == '.' && !name.empty());
    name += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return name;
}

// Returns the environment of a model's server: without Kvik's variables, which are among its
// arguments, and with the API keys, which must not be.
std::vector<std::string> server_environment(const std::vector<std::string>& api_keys) {
  std::vector<std::string> variables;
  for (char** at = environ; *at; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_flag =
        name.starts_with("KVIK_") && name != "KVIK_LOG" && name != "KVIK_REDIS_PASSWORD";
    const bool is_of_manager =
        name == "NOTIFY_SOCKET" || name.starts_with("LISTEN_") || name.starts_with("WATCHDOG_");
    if (!is_flag && !is_of_manager) variables.emplace_back(variable);
  }
  if (!api_keys.empty())
    variables.push_back(fmt::format("KVIK_API_KEY={}", fmt::join(api_keys, ",")));
  return variables;
}

// Plans the processes of the models.
class LaunchPlanner {
 public:
  LaunchPlanner(const RouterSetup& setup, uint64_t memory_bytes)
      : setup_(setup), memory_bytes_(memory_bytes) {
    if (setup.disk.empty() && setup.options.warm_cache == "on")
      warm_ = std::make_unique<WarmFolder>();
  }

  // Called on one thread.
  Result<ModelLaunch> plan(const ModelSpec& spec) const {
    const auto it = std::ranges::find(setup_.models, spec.name,
                                      [](const RouterModel& m) { return m.spec.name; });
    std::vector<std::string> arguments = {"/proc/self/exe", "serve"};
    const std::vector<std::string> flags = server_arguments(setup_.flags, *it);
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.push_back("--model=" + spec.path);
    arguments.push_back("--served-model-name=" + spec.name);
    for (const std::string& alias : spec.aliases) arguments.push_back("--alias=" + alias);
    arguments.emplace_back("--host=127.0.0.1");
    // Several models should fit at once.
    const uint64_t share = memory_bytes_ / std::clamp<uint64_t>(setup_.models.size(), 1, 2);
    TRY_ASSIGN(const ServerPlan plan, setup_.plan({arguments.begin() + 1, arguments.end()}, share));
    if (!plan.sets_kv_memory) arguments.push_back(fmt::format("--kv-memory={}", plan.kv_bytes));
    ModelLaunch launch{.arguments = std::move(arguments),
                       .variables = server_environment(setup_.api_keys),
                       .planned_bytes = plan.n_bytes,
                       .kept_folder = {}};
    add_disk(spec, plan, launch);
    return launch;
  }

 private:
  void add_disk(const ModelSpec& spec, const ServerPlan& plan, ModelLaunch& launch) const {
    if (!setup_.disk.empty()) {
      launch.arguments.push_back(fmt::format("--disk={}/{}", setup_.disk, folder_name(spec.name)));
      launch.arguments.push_back(
          fmt::format("--disk-size={}", setup_.disk_bytes / setup_.models.size()));
      return;
    }
    if (!warm_ || warm_->path().empty()) return;
    const std::string folder = warm_->path() + "/" + folder_name(spec.name);
    // The index of the pages takes a little more than the pages themselves. Beside them there must
    // be room for the model, or it could not read them, and for its index, or it would not start.
    const uint64_t room = free_bytes(warm_->path()) + folder_bytes(folder);
    const uint64_t most =
        std::min({plan.kv_bytes + plan.kv_bytes / 8, memory_bytes_ / 2,
                  memory_bytes_ - std::min(plan.n_bytes, memory_bytes_), room - room / 8});
    if (most < kLeastWarm) return;
    launch.kept_folder = folder;
    launch.arguments.push_back("--disk=" + launch.kept_folder);
    launch.arguments.push_back(fmt::format("--disk-size={}", most));
    launch.arguments.emplace_back("--disk-write=exit");
  }

  const RouterSetup& setup_;
  const uint64_t memory_bytes_;
  std::unique_ptr<WarmFolder> warm_;  // null: pages are not kept in memory
};

// Opens a listening socket for the server of a model.
Result<LoopbackSocket> listen_on_loopback() {
  TRY_ASSIGN(const ListenSocket socket, ListenSocket::open("127.0.0.1", 0));
  TRY_ASSIGN(const int fd, socket.duplicate());
  return LoopbackSocket{.fd = fd, .port = socket.port()};
}

std::vector<std::string> names_of(const std::vector<RouterModel>& models) {
  std::vector<std::string> names;
  for (const RouterModel& model : models) names.push_back(model.spec.name);
  return names;
}

}  // namespace

Result<int> serve_router(const RouterSetup& setup, const ListenSocket& socket) {
  const uint64_t available = available_memory_bytes().value_or(uint64_t{4} << 30);
  const uint64_t memory_bytes = setup.options.memory_bytes.value_or(available / 10 * 9);
  const LaunchPlanner planner(setup, memory_bytes);
  ModelManagerOptions options{.models = {},
                              .memory_bytes = memory_bytes,
                              .plan = [&](const ModelSpec& spec) { return planner.plan(spec); },
                              .listen = listen_on_loopback};
  for (const RouterModel& model : setup.models) options.models.push_back(model.spec);
  TRY_ASSIGN(const auto upstreams, Upstreams::start());
  TRY_ASSIGN(const auto models, ModelManager::start(std::move(options)));
  const ModelRouter router{.models = *models, .upstreams = *upstreams};
  UnavailableService service("no model answers this route", kContext);
  ServerOptions server_options = setup.server;
  server_options.router = &router;
  server_options.version = build_info().version;
  Interrupts::catch_first();
  TRY_ASSIGN(const auto server, Server::start(service, server_options, socket));
  log::info("{} in {} of memory: {}", setup.models.size() == 1 ? "one model" : "models",
            format_bytes(memory_bytes), fmt::format("{}", fmt::join(names_of(setup.models), ", ")));
  log::info("listening on {}", socket.url(setup.server.tls ? "https" : "http"));
  // A sign of life means that the manager of the models answers.
  TRY_ASSIGN(const auto watchdog,
             Watchdog::start(setup.manager, [&models] { return !models->list().empty(); }));
  setup.manager.notify("READY=1");
  while (!Interrupts::wait()) {
  }
  setup.manager.notify("STOPPING=1");
  log::info("draining: no new requests, up to {} s for those that run", kDrainTime.count());
  server->stop_accepting();
  server->stop(kDrainTime);
  return kExitOk;
}

}  // namespace kvik
