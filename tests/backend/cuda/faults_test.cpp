#include <csignal>

#include "backend/cuda/both_backends.h"
#include "backend/cuda/device/cuda_memory.h"
#include "base/log.h"
#include "host/load_model.h"
#include "support/random_adapter.h"

namespace kvik {
namespace {

using host_run::HostDevice;
using testing::PlacedRows;
using testing::random_floats;

// A backend, and the device on which it computes.
struct OnDevice {
  explicit OnDevice(const host_run::HostDeviceOptions& options = {}) {
    auto own = std::make_unique<HostDevice>(options);
    device = own.get();
    backend = std::move(*cuda::make_backend(std::move(own), 1));
  }
  HostDevice* device;
  std::unique_ptr<Backend> backend;
};

void said_on_stderr(const std::function<void()>& function) {
  log::init("info");
  function();
}

TEST(CudaFaults, a_model_that_does_not_fit_is_refused_with_what_is_there) {
  OnDevice on({.memory_bytes = 100000});
  auto source = open_model("demo");
  const auto loaded = load_model({.model = "demo"}, std::move(*source), std::move(on.backend));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(loaded.error().message, ::testing::HasSubstr("more bytes of the GPU's memory"));
}

TEST(CudaFaults, a_plan_is_held_against_what_the_device_has_left) {
  OnDevice on({.memory_bytes = cuda::kSpareBytes + (uint64_t{8} << 20)});
  const MemoryPlan fits = {uint64_t{8} << 20, 0, {}};
  EXPECT_TRUE(check_device_memory(fits, *on.backend));
  // Data in host memory does not count against the device.
  EXPECT_TRUE(check_device_memory({fits.weights_bytes, 0, {{"requests", 1}}}, *on.backend));
  EXPECT_FALSE(check_device_memory({fits.weights_bytes, 0, {{"kernels", 1, true}}}, *on.backend));
  const Buffer some = on.backend->memory().allocate(1);
  const auto refused = check_device_memory(fits, *on.backend);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(refused.error().message,
              ::testing::HasSubstr("take 8.00 MiB of the memory of cuda/"));
  const auto cpu = make_cpu_backend({.n_threads = 1, .isa = {}});
  EXPECT_TRUE(check_device_memory({UINT64_MAX, 0, {}}, **cpu));
}

TEST(CudaFaults, an_adapter_that_does_not_fit_is_refused_and_leaves_nothing_behind) {
  OnDevice on;
  auto source = open_model("synthetic:test-llama:q4_0");
  const auto model = Model::load(**source, *on.backend, nullptr);
  ASSERT_TRUE(model);
  RandomAdapter changes((*model)->config(), 1);
  const uint64_t n_held = on.device->held_bytes();
  on.device->limit_memory(n_held + cuda::kSpareBytes + 1000);
  const auto refused = Adapter::load(changes, **model, *on.backend);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("of which 1000 B are free"));
  EXPECT_EQ(on.device->held_bytes(), n_held);
  on.device->limit_memory(UINT64_MAX);
  EXPECT_TRUE(Adapter::load(changes, **model, *on.backend));
}

TEST(CudaFaults, memory_that_is_not_there_while_growing_ends_the_process_with_a_sentence) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice on;
  on.device->limit_memory(0);
  EXPECT_EXIT(said_on_stderr([&] { on.backend->memory().allocate(5); }),
              ::testing::ExitedWithCode(1),
              "5 more bytes of the GPU's memory.*cannot continue without the GPU");
}

TEST(CudaFaults, a_device_that_disappears_ends_the_process_with_a_sentence) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice on;
  PlacedRows x(*on.backend, 2, 40, random_floats(80, 1));
  on.device->disappear();
  EXPECT_EXIT(said_on_stderr([&] { on.backend->scale(x.rows, 2.0f); }),
              ::testing::ExitedWithCode(1), "the GPU is gone.*cannot continue without the GPU");
  EXPECT_EXIT(said_on_stderr([&] { x.values(); }), ::testing::ExitedWithCode(1), "the GPU is gone");
}

// Host code that dereferences a pointer into the GPU's memory must crash, as it would with a real
// GPU.
TEST(CudaFaults, memory_of_the_device_is_closed_to_the_host) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice on;
  PlacedRows x(*on.backend, 1, 4, {1, 2, 3, 4});
  EXPECT_EXIT(std::exit(static_cast<int>(*static_cast<volatile float*>(x.rows.data))),
              ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(CudaFaults, memory_comes_back_with_what_it_was_for) {
  OnDevice on;
  {
    auto source = open_model("synthetic:test-llama:q4_0");
    auto loaded = load_model({.model = "test"}, std::move(*source),
                             std::move(*cuda::make_backend(std::make_unique<HostDevice>(), 1)));
    ASSERT_TRUE(loaded);
    PlacedRows x(*on.backend, 2, 40, random_floats(80, 1));
    on.backend->scale_rows(x.rows, std::vector<float>{1.0f, 2.0f});
    EXPECT_GT(on.device->held_bytes(), 0u);
  }
  EXPECT_EQ(on.device->held_bytes(), 256u << 10);  // room for lists
}

TEST(CudaDevices, are_named_as_documented) {
  EXPECT_EQ(*gpu_from_name("cpu"), std::nullopt);
  EXPECT_EQ(*gpu_from_name("cuda"), 0u);
  EXPECT_EQ(*gpu_from_name("cuda:3"), 3u);
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda0", "CUDA"}) {
    const auto gpu = gpu_from_name(name);
    ASSERT_FALSE(gpu) << name;
    EXPECT_EQ(gpu.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace kvik
