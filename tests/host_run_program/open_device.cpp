#include "backend/cuda/runtime/open_device.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/quantity.h"
#include "host_run/host_device.h"
#include "host_run/memory_ledger.h"
#include "main/environment.h"

// The program with one GPU that is run on the host. What shall happen to it is asked for by:
//   KVIK_HOST_RUN_MEMORY      bytes that the device has; 4GiB without
//   KVIK_HOST_RUN_SHARED      a file by which processes share them
//   KVIK_HOST_RUN_FULL        a file: once it is there, no more memory is to be had
//   KVIK_HOST_RUN_GONE        a file: once it is there, the device is gone
//   KVIK_HOST_RUN_GONE_AFTER  a number of launches, after which it is
namespace kvik::cuda {
namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && std::filesystem::exists(path, ignored);
}

class AskedFor final : public host_run::HostRunEnvironment {
 public:
  static Result<std::shared_ptr<AskedFor>> create() {
    auto asked_for = std::make_shared<AskedFor>();
    if (const std::string n = environment("KVIK_HOST_RUN_GONE_AFTER"); !n.empty()) {
      TRY_ASSIGN(asked_for->n_launches_left_, parse_count(n));
    }
    if (const std::string path = environment("KVIK_HOST_RUN_SHARED"); !path.empty()) {
      asked_for->ledger_ = std::make_unique<host_run::MemoryLedger>(path);
    }
    return asked_for;
  }

  bool is_device_there() override {
    if (n_launches_left_ == 0 || is_file(gone_)) return false;
    --n_launches_left_;
    return true;
  }
  uint64_t held_by_others() override { return ledger_ ? ledger_->held_by_others() : 0; }
  bool take(uint64_t bytes, uint64_t all_bytes) override {
    return !is_file(full_) && (!ledger_ || ledger_->take(bytes, all_bytes));
  }
  void give_back(uint64_t bytes) override {
    if (ledger_) ledger_->give_back(bytes);
  }

 private:
  const std::string gone_ = environment("KVIK_HOST_RUN_GONE");
  const std::string full_ = environment("KVIK_HOST_RUN_FULL");
  uint64_t n_launches_left_ = UINT64_MAX;
  std::unique_ptr<host_run::MemoryLedger> ledger_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_device(uint32_t number) {
  if (number > 0) {
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU {}: the machine has 1, counted from 0", number));
  }
  host_run::HostDeviceOptions options;
  if (const std::string bytes = environment("KVIK_HOST_RUN_MEMORY"); !bytes.empty()) {
    TRY_ASSIGN(options.memory_bytes, parse_bytes(bytes));
  }
  TRY_ASSIGN(options.environment, AskedFor::create());
  return std::make_unique<host_run::HostDevice>(options);
}

}  // namespace kvik::cuda
