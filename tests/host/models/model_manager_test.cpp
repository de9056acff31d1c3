#include "host/models/model_manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/models/evictions.h"
#include "host/models/model_process.h"

namespace kvik {
namespace {

using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

TimePoint at(int seconds) { return TimePoint(std::chrono::seconds(seconds)); }

std::vector<size_t> chosen(std::vector<EvictableMemory> evictable, uint64_t n_bytes) {
  const auto evictions = choose_evictions(std::move(evictable), n_bytes);
  if (!evictions) return {};
  std::vector<size_t> models;
  for (const EvictableMemory& e : *evictions) models.push_back(e.model);
  return models;
}

TEST(ChooseEvictions, TakesTheLeastRecentlyUsedOnesThatSuffice) {
  const std::vector<EvictableMemory> all = {
      {.model = 0, .is_loaded = true, .n_bytes = 10, .last_used = at(3)},
      {.model = 1, .is_loaded = false, .n_bytes = 4, .last_used = at(1)},
      {.model = 2, .is_loaded = true, .n_bytes = 7, .last_used = at(2)}};
  EXPECT_THAT(chosen(all, 1), ElementsAre(1));
  EXPECT_THAT(chosen(all, 5), ElementsAre(1, 2));
  EXPECT_THAT(chosen(all, 21), ElementsAre(1, 2, 0));
  EXPECT_FALSE(choose_evictions(all, 22).has_value());
  EXPECT_EQ(choose_evictions(all, 3).value()[0].n_bytes, 3u) << "a part of kept pages is enough";
  EXPECT_EQ(choose_evictions(all, 5).value()[1].n_bytes, 7u) << "a process ends as a whole";
  EXPECT_TRUE(choose_evictions({}, 0).has_value());
}

TEST(ServerStatus, ShareAndReasonAreRead) {
  EXPECT_EQ(loaded_share("loading 42%"), 0.42);
  for (const char* const other : {"loading 101%", "loading %", "loading -1%", "42%", ""})
    EXPECT_FALSE(loaded_share(other)) << other;
  EXPECT_EQ(failure_in("failed: no memory"), "no memory");
  EXPECT_EQ(failure_in("loading 42%"), "");
}

// Runs shell scripts in place of model servers.
class Manager : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 100;

  // `scripts` by model name.
  void start(const std::vector<std::pair<std::string, std::string>>& scripts, uint64_t memory,
             std::optional<Duration> keep_alive = std::nullopt) {
    ModelManagerOptions options{
        .models = {},
        .changed_models = [this] { return std::exchange(changed_, std::nullopt); },
        .memory_bytes = memory,
        .plan = [scripts, kept_folder = kept_folder_,
                 n_bytes = n_bytes_](const ModelSpec& spec) -> Result<ModelLaunch> {
          for (const auto& [name, script] : scripts) {
            if (name != spec.name) continue;
            return ModelLaunch{.arguments = {"/bin/bash", "-c", script},
                               .environment = {"PATH=/usr/bin:/bin"},
                               .planned_bytes = *n_bytes,
                               .kept_folder = kept_folder};
          }
          return fail(ErrorCode::kCorrupt, "no plan for " + spec.name);
        },
        .listen = []() -> Result<LoopbackSocket> {
          return LoopbackSocket{.socket = FileDescriptor(::open("/dev/null", O_RDONLY)), .port = 1};
        },
        .trim_kept = trim_kept_,
        .end_time = std::chrono::seconds(1),
        .hang_time = hang_time_,
        .load_hang_time = hang_time_,
        .stall_time = stall_time_,
        .patience = std::chrono::milliseconds(50)};
    for (const auto& [name, script] : scripts)
      options.models.push_back(
          {.name = name, .aliases = {name + "-alias"}, .path = name, .keep_alive = keep_alive});
    auto started = ModelManager::start(std::move(options));
    ASSERT_TRUE(started);
    manager_ = std::move(*started);
  }

  ModelReadiness wait(const ModelUse& use) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      const ModelReadiness readiness = use.readiness();
      if (readiness.port || readiness.error || steady_clock::now() > end) return readiness;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  ModelState state(size_t index) { return manager_->list()[index].state; }
  void wait_for(size_t index, ModelState wanted) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (state(index) != wanted && steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(state(index), wanted);
  }

  Duration hang_time_ = std::chrono::seconds(60);
  Duration stall_time_ = std::chrono::seconds(60);
  std::optional<std::vector<ModelSpec>> changed_;  // the next list of models
  std::string kept_folder_;                        // of all models
  std::function<Result<void>(const std::string& folder, uint64_t n_bytes)> trim_kept_;
  const std::shared_ptr<std::atomic<uint64_t>> n_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(kBytes);  // plan of each model
  std::unique_ptr<ModelManager> manager_;
};

// Sends READY=1, and ends at SIGTERM. Python, because a shell cannot send to an abstract socket.
std::string serves(const std::string& messages = "READY=1") {
  return "exec /usr/bin/python3 -c '\n"
         "import os, signal, socket\n"
         "assert os.environ[\"LISTEN_PID\"] == str(os.getpid())\n"
         "to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
         "to.connect(\"\\0\" + os.environ[\"NOTIFY_SOCKET\"][1:])\n"
         "to.send(b\"" +
         messages +
         "\")\n"
         "signal.pause()'";
}

TEST_F(Manager, AModelIsLoadedWhenItIsUsedAndStaysWhileItIs) {
  start({{"a", serves()}, {"b", serves()}}, kBytes);
  const auto a = manager_->use("a", nullptr);
  EXPECT_TRUE(wait(*a).port);
  const auto b = manager_->use("b", nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(state(0), ModelState::kLoaded);
  EXPECT_FALSE(b->readiness().port);
}

TEST_F(Manager, AnUnusedModelMakesRoom) {
  start({{"a", serves()}, {"b", serves()}}, kBytes);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  EXPECT_TRUE(wait(*manager_->use("b", nullptr)).port);
  EXPECT_EQ(state(0), ModelState::kUnloaded);
}

TEST_F(Manager, AWaitingModelIsNotStarvedByNewRequestsOfOthers) {
  start({{"a", serves()}, {"b", serves()}}, kBytes);
  auto a = manager_->use("a", nullptr);
  EXPECT_TRUE(wait(*a).port);
  const auto b = manager_->use("b", nullptr);
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (!b->readiness().port && steady_clock::now() < end) {  // a is never without a request
    auto next = manager_->use("a", nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    a = std::move(next);
  }
  EXPECT_TRUE(b->readiness().port);
}

TEST_F(Manager, AModelWhoseProcessFailsIsRefusedWithItsSentence) {
  std::string fails = serves("STATUS=failed: the file is broken");
  const size_t pause = fails.find("signal.pause()");
  fails.replace(pause, std::string("signal.pause()").size(), "os._exit(1)");
  start({{"a", "exit 3"}, {"b", fails}}, 1000);
  EXPECT_THAT(wait(*manager_->use("a", nullptr)).error.value().message, HasSubstr("exit code 3"));
  EXPECT_THAT(wait(*manager_->use("b", nullptr)).error.value().message,
              HasSubstr("the file is broken"));
  EXPECT_EQ(state(1), ModelState::kFailed);
}

TEST_F(Manager, AFailureKeepsTheCodeThatTheProcessReports) {
  std::string fails = serves("X_KVIK_ERROR=4\\nSTATUS=failed: the file is broken");
  const size_t pause = fails.find("signal.pause()");
  fails.replace(pause, std::string("signal.pause()").size(), "os._exit(1)");
  static_assert(static_cast<int>(ErrorCode::kCorrupt) == 4);
  start({{"a", fails}, {"b", "exit 3"}}, 1000);
  EXPECT_EQ(wait(*manager_->use("a", nullptr)).error.value().code, ErrorCode::kCorrupt);
  EXPECT_EQ(wait(*manager_->use("b", nullptr)).error.value().code, ErrorCode::kUnavailable);
}

// The model cannot be loaded without its file.
TEST_F(Manager, AModelIsTriedAtOnceIfItsFileChangesOrItsPauseIsEnded) {
  const std::string file = testing::TempDir() + "file_of_a_model";
  std::filesystem::remove(file);
  start({{file, "test -s " + file + " || exit 3; " + serves()}}, kBytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(wait(*manager_->use(file, nullptr)).error);
    EXPECT_TRUE(wait(*manager_->use(file, nullptr)).error);
    EXPECT_EQ(manager_->list()[0].n_loads, i);
    std::ofstream(file) << "x";
    EXPECT_TRUE(wait(*manager_->use(file, nullptr)).port);
    manager_->unload(file);
    wait_for(0, ModelState::kUnloaded);
    std::filesystem::remove(file);
  }
  const std::string other = testing::TempDir() + "other_file";
  std::filesystem::remove(other);
  start({{"a", "test -e " + other + " || exit 3; " + serves()}}, kBytes);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).error);
  std::ofstream(other) << "x";
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).error) << "after a pause";
  manager_->end_pause("a");
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  std::filesystem::remove(other);
}

TEST_F(Manager, AModelWithoutAPlanIsRefused) {
  start({{"a", serves()}}, kBytes - 1);
  EXPECT_THAT(wait(*manager_->use("a", nullptr)).error.value().message, HasSubstr("a needs"));
}

TEST_F(Manager, EachLoadIsPlanned) {
  start({{"a", serves()}}, kBytes);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  manager_->unload("a");
  wait_for(0, ModelState::kUnloaded);
  *n_bytes_ = kBytes + 1;  // its file was replaced
  EXPECT_THAT(wait(*manager_->use("a", nullptr)).error.value().message, HasSubstr("a needs"));
}

TEST_F(Manager, PagesThatLeaveNoRoomForTheirModelAreDropped) {
  kept_folder_ = testing::TempDir() + "kept_pages_of_a_model";
  std::filesystem::create_directory(kept_folder_);
  start({{"a", serves()}}, kBytes + 1000);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  std::ofstream(kept_folder_ + "/pages") << std::string(4096, 'x');
  manager_->unload("a");
  wait_for(0, ModelState::kUnloaded);
  EXPECT_GT(manager_->list()[0].kept_bytes, 1000u);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  EXPECT_FALSE(std::filesystem::exists(kept_folder_));
}

TEST_F(Manager, OfKeptPagesOnlyAsManyAsNecessaryAreDropped) {
  kept_folder_ = testing::TempDir() + "trimmed_pages_of_a_model";
  std::filesystem::create_directory(kept_folder_);
  std::atomic<uint64_t> room = 0;
  trim_kept_ = [&](const std::string& folder, uint64_t n_bytes) -> Result<void> {
    room = n_bytes;
    std::filesystem::remove(folder + "/old");
    return {};
  };
  start({{"a", serves()}}, kBytes + 6000);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  std::ofstream(kept_folder_ + "/old") << std::string(4096, 'x');
  std::ofstream(kept_folder_ + "/new") << std::string(4096, 'x');
  manager_->unload("a");
  wait_for(0, ModelState::kUnloaded);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  EXPECT_EQ(room, 6000u);
  EXPECT_TRUE(std::filesystem::exists(kept_folder_ + "/new"));
  std::filesystem::remove_all(kept_folder_);
}

TEST_F(Manager, KeptPagesThatCannotBeTrimmedAreDropped) {
  for (const bool fails : {true, false}) {
    kept_folder_ = testing::TempDir() + "untrimmed_pages_of_a_model";
    std::filesystem::create_directory(kept_folder_);
    trim_kept_ = [fails](const std::string&, uint64_t) -> Result<void> {
      if (fails) return fail(ErrorCode::kIo, "no");
      return {};
    };
    start({{"a", serves()}}, kBytes + 1000);
    EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
    std::ofstream(kept_folder_ + "/pages") << std::string(4096, 'x');
    manager_->unload("a");
    wait_for(0, ModelState::kUnloaded);
    EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
    EXPECT_FALSE(std::filesystem::exists(kept_folder_));
    manager_.reset();
  }
}

TEST_F(Manager, ALoadThatFailsTwiceDropsTheKeptPages) {
  kept_folder_ = testing::TempDir() + "damaged_pages_of_a_model";
  std::filesystem::create_directory(kept_folder_);
  std::ofstream(kept_folder_ + "/pages") << "x";
  start({{"a", "test -e " + kept_folder_ + "/pages && exit 3; " + serves()}}, kBytes + 100000);
  const auto failed = [&] { return wait(*manager_->use("a", nullptr)).error.has_value(); };
  EXPECT_TRUE(failed());
  EXPECT_TRUE(std::filesystem::exists(kept_folder_));
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  while (failed() && steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(std::filesystem::exists(kept_folder_));
  EXPECT_EQ(state(0), ModelState::kLoaded);
}

TEST_F(Manager, MessagesOfOtherProcessesAreIgnored) {
  // A grandchild reports readiness: its process id is another one.
  std::string script = serves();
  const size_t check = script.find("assert");
  script.erase(check, script.find('\n', check) + 1 - check);
  script.replace(script.find("signal.pause()"), std::string("signal.pause()").size(),
                 "signal.alarm(1); signal.pause()");  // ends by itself
  start({{"a", "(" + script + ") & wait"}}, kBytes);
  const auto a = manager_->use("a", nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(state(0), ModelState::kLoading);
}

TEST_F(Manager, AnIdleModelIsUnloadedAfterItsTime) {
  start({{"a", serves()}}, kBytes, std::chrono::milliseconds(30));
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  wait_for(0, ModelState::kUnloaded);
}

TEST_F(Manager, AModelWithResponsesInTheBackgroundIsInUse) {
  std::string script = serves("READY=1\\nX_KVIK_BACKGROUND=2");
  script.replace(script.find("signal.pause()"), std::string("signal.pause()").size(),
                 "signal.sigtimedwait([signal.SIGUSR1], 1)\n"
                 "to.send(b\"X_KVIK_BACKGROUND=0\")\n"
                 "signal.pause()");
  start({{"a", script}, {"b", serves()}}, kBytes, std::chrono::milliseconds(30));
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  const auto b = manager_->use("b", nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(state(0), ModelState::kLoaded);
  EXPECT_FALSE(manager_->list()[0].unload_s);
  EXPECT_FALSE(b->readiness().port);
  EXPECT_TRUE(wait(*b).port) << "a has reported the end of its responses";
}

TEST_F(Manager, AProcessThatIsKilledFromOutsideIsNoFailedLoad) {
  std::string dies = serves();
  const std::string waits = "signal.pause()";
  dies.replace(dies.find(waits), waits.size(), "signal.raise_signal(signal.SIGKILL)");
  start({{"a", dies}}, kBytes);
  const auto use = manager_->use("a", nullptr);
  wait_for(0, ModelState::kFailed);
  EXPECT_THAT(manager_->list()[0].error.value().message,
              testing::MatchesRegex("a ended [0-9.]+ s after it was loaded: its process was ended "
                                    "from outside with signal 9 .*memory runs out"));
}

TEST_F(Manager, AProcessThatIgnoresSigtermIsKilled) {
  start({{"a", "trap \"\" TERM; " + serves()}}, kBytes);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  manager_->unload("a");
  wait_for(0, ModelState::kUnloaded);
}

TEST_F(Manager, AProcessWithoutSignsOfLifeIsKilled) {
  hang_time_ = std::chrono::milliseconds(200);
  start({{"a", serves()}}, kBytes);
  const auto use = manager_->use("a", nullptr);
  EXPECT_TRUE(wait(*use).port);
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (manager_->list()[0].n_crashes == 0 && steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(manager_->list()[0].n_crashes, 1);
}

TEST_F(Manager, ALoadWithoutProgressIsKilledAndTheOthersLoad) {
  hang_time_ = std::chrono::milliseconds(400);
  start({{"a", "exec sleep 100"}, {"b", serves()}}, 1000);
  const auto a = manager_->use("a", nullptr);
  const auto b = manager_->use("b", nullptr);
  EXPECT_THAT(wait(*a).error.value().message, HasSubstr("signal 9"));
  EXPECT_TRUE(wait(*b).port);
}

TEST_F(Manager, UnloadWaitsForTheRequestsAndNewOnesLoadItAgain) {
  start({{"a", serves()}}, kBytes);
  auto first = manager_->use("a", nullptr);
  EXPECT_TRUE(wait(*first).port);
  manager_->unload("a");
  const auto second = manager_->use("a", nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(first->readiness().port);
  EXPECT_FALSE(second->readiness().port);
  first = nullptr;
  EXPECT_TRUE(wait(*second).port);
  EXPECT_EQ(manager_->list()[0].n_loads, 2);
}

TEST_F(Manager, ALoadWithoutRequestsEndsForOthersAndAtUnload) {
  start({{"a", "exec sleep 60"}, {"b", serves()}}, 1000);
  auto a = manager_->use("a", nullptr);
  wait_for(0, ModelState::kLoading);
  const auto b = manager_->use("b", nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(b->readiness().port);
  a = nullptr;
  EXPECT_TRUE(wait(*b).port);
  a = manager_->use("a", nullptr);
  wait_for(0, ModelState::kLoading);
  a = nullptr;
  manager_->unload("a");
  wait_for(0, ModelState::kUnloaded);
}

TEST_F(Manager, AKeepAliveThatIsSetWhileAModelIsUnloadedHolds) {
  // It ends half a second after SIGTERM.
  std::string script = serves();
  script.replace(script.find("signal.pause()"), std::string("signal.pause()").size(),
                 "signal.signal(signal.SIGTERM, lambda *_: None); signal.pause(); "
                 "import time; time.sleep(0.5)");
  start({{"a", script}}, kBytes, std::chrono::seconds(100));
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the handler is set
  manager_->unload("a");
  wait_for(0, ModelState::kUnloading);
  manager_->set_keep_alive("a", std::nullopt);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  EXPECT_FALSE(manager_->list()[0].unload_s);
}

TEST_F(Manager, AStalledLoadDoesNotKeepOthersWaiting) {
  stall_time_ = std::chrono::milliseconds(100);
  start({{"a", "exec sleep 60"}, {"b", serves()}}, 2 * kBytes);
  const auto a = manager_->use("a", nullptr);
  wait_for(0, ModelState::kLoading);
  const auto b = manager_->use("b", nullptr);
  EXPECT_TRUE(wait(*b).port);
  EXPECT_EQ(state(0), ModelState::kLoading);
}

TEST_F(Manager, AModelThatIsAddedIsServed) {
  start({{"a", serves()}, {"b", serves()}}, 2 * kBytes);
  const auto spec = [](std::string name) {
    return ModelSpec{.name = name, .aliases = {}, .path = name, .keep_alive = {}};
  };
  changed_ = {spec("b")};
  EXPECT_EQ(manager_->list().size(), 1);
  EXPECT_FALSE(manager_->resolve("a"));
  changed_ = {spec("a"), spec("b")};
  EXPECT_EQ(*manager_->resolve("a"), "a");
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  EXPECT_EQ(state(0), ModelState::kLoaded);
}

TEST_F(Manager, AModelThatIsRemovedEndsAfterItsRequests) {
  start({{"a", serves()}, {"b", serves()}}, kBytes);
  auto a = manager_->use("a", nullptr);
  EXPECT_TRUE(wait(*a).port);
  changed_ = {{.name = "b", .aliases = {}, .path = "b", .keep_alive = {}}};
  EXPECT_EQ(manager_->list().size(), 1);
  EXPECT_TRUE(a->readiness().port);  // a request that uses it is not disturbed
  const auto refused = wait(*manager_->use("a", nullptr));
  EXPECT_THAT(refused.error.value().message, HasSubstr("has been removed"));
  a.reset();
  EXPECT_TRUE(wait(*manager_->use("b", nullptr)).port);  // there is memory for one of them
}

TEST_F(Manager, AModelWhoseFileHasChangedIsLoadedAgain) {
  start({{"a", serves()}}, kBytes);
  EXPECT_TRUE(wait(*manager_->use("a", nullptr)).port);
  changed_ = {{.name = "a", .aliases = {}, .path = "other", .keep_alive = {}}};
  EXPECT_EQ(manager_->list()[0].path, "other");
  EXPECT_EQ(wait(*manager_->use("a", nullptr)).n_loads, 2);
}

TEST_F(Manager, NoModelsAreAnErrorOfARequest) {
  start({{"a", serves()}}, kBytes);
  changed_.emplace();
  EXPECT_TRUE(manager_->list().empty());
  EXPECT_THAT(manager_->resolve("").error().message, HasSubstr("there is no model"));
}

TEST_F(Manager, NamesAliasesLatestAndAdaptersAreResolved) {
  start({{"first", serves()}, {"other", serves()}}, kBytes);
  EXPECT_EQ(manager_->resolve("other").value(), "other");
  EXPECT_EQ(manager_->resolve("other-alias").value(), "other");
  EXPECT_EQ(manager_->resolve("other:latest").value(), "other");
  EXPECT_EQ(manager_->resolve("other:some-adapter").value(), "other");
  EXPECT_EQ(manager_->resolve("").value(), "first");
  const auto wrong = manager_->resolve("frist");
  EXPECT_EQ(wrong.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(wrong.error().message, HasSubstr("did you mean first?; the models are first, other"));
}

}  // namespace
}  // namespace kvik
