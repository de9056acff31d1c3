// Included first, because later headers declare kvik::testing.
#include "support/temporary_folder.h"
#include "support/tiny_engine.h"

#include "backend/cuda/both_backends.h"
#include "base/log.h"
#include "tier/disk_tier.h"

namespace kvik {
namespace {

using host_run::HostDevice;

enum class On { kProcessor, kGpu };

// An engine with a disk tier, as after a start of the process.
class TieredEngine {
 public:
  TieredEngine(const TemporaryFolder& folder, const std::string& model, KvType kv_type, On on) {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
    CHECK(tier.has_value());
    tier_ = std::move(*tier);
    TinyModel tiny;
    if (on == On::kGpu) {
      auto device = std::make_unique<HostDevice>();
      device_ = device.get();
      tiny.backend = std::move(*cuda::make_backend(std::move(device), 1));
    } else {
      tiny.backend = make_test_backend();
    }
    const auto source = make_synthetic("synthetic:" + model);
    CHECK(source.has_value());
    tiny.model = std::move(*Model::load(**source, *tiny.backend, nullptr));
    rig_ = std::make_unique<EngineRig>(
        TinyEngineOptions{
            .n_pages = 50, .kv_type = kv_type, .tiers = {{TierKind::kDisk, tier_.get()}}},
        std::move(tiny));
  }

  std::shared_ptr<RecordingSink> run(const std::vector<TokenId>& prompt) {
    Request request = greedy_request(prompt, 4);
    request.logits = Request::Logits::kLast;
    const auto sink = rig_->submit(std::move(request));
    while (!sink->is_finished()) {
      if (!rig_->engine().step()) rig_->engine().wait_for_tier(std::chrono::milliseconds(5));
    }
    if (device_) {
      EXPECT_EQ(device_->n_side_waits(std::this_thread::get_id()), 0u);
    }
    return sink;
  }
  HostDevice& device() { return *device_; }

 private:
  std::unique_ptr<DiskTier> tier_;
  HostDevice* device_ = nullptr;
  std::unique_ptr<EngineRig> rig_;  // destroyed first
};

struct TierCase {
  const char* model;
  KvType kv_type;
};

constexpr TierCase kCases[] = {{"test-llama:q4_0", KvType::kInt8},
                               {"test-gemma3:q8_0", KvType::kInt4},
                               {"test-mla:f32", KvType::kBF16},
                               {"test-qwen35:q8_0", KvType::kF32}};

TEST(CudaTiers, pages_that_one_device_computed_serve_the_other) {
  for (const TierCase& c : kCases) {
    for (const On first : {On::kProcessor, On::kGpu}) {
      SCOPED_TRACE(c.model);
      const TemporaryFolder folder, other_folder;
      const auto prompt = some_tokens(70);
      const On second = first == On::kGpu ? On::kProcessor : On::kGpu;
      const auto cold = TieredEngine(other_folder, c.model, c.kv_type, second).run(prompt);
      TieredEngine(folder, c.model, c.kv_type, first).run(prompt);
      const auto warm = TieredEngine(folder, c.model, c.kv_type, second).run(prompt);
      EXPECT_EQ(cold->usage().cached_tokens, 0u);
      EXPECT_GE(warm->usage().cache.tier_tokens, 64u);
      EXPECT_EQ(warm->tokens(), cold->tokens());
      ASSERT_EQ(warm->logits().size(), cold->logits().size());
      for (size_t i = 0; i < cold->logits().size(); ++i) {
        EXPECT_TRUE(same_bits(warm->logits()[i].second, cold->logits()[i].second));
      }
    }
  }
}

// The first request is finished and on disk when the device disappears during the second one.
void lose_the_device(const TemporaryFolder& folder) {
  log::init("info");
  TieredEngine(folder, "test-llama:q4_0", KvType::kInt8, On::kGpu).run(some_tokens(70));
  TieredEngine engine(folder, "test-llama:q4_0", KvType::kInt8, On::kGpu);
  engine.device().disappear();
  engine.run(some_tokens(40, 2));
}

TEST(CudaTiers, keep_what_was_written_when_the_device_disappears) {
  const TemporaryFolder folder;
  EXPECT_EXIT(lose_the_device(folder), ::testing::ExitedWithCode(1),
              "the GPU is gone.*cannot continue without the GPU");
  TieredEngine after(folder, "test-llama:q4_0", KvType::kInt8, On::kProcessor);
  EXPECT_GE(after.run(some_tokens(70))->usage().cache.tier_tokens, 64u);
}

}  // namespace
}  // namespace kvik
