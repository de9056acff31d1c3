#include <condition_variable>
#include <map>
#include <mutex>
#include <random>

#include "backend/cuda/both_backends.h"
#include "base/log.h"
#include "tier/aligned_bytes.h"
#include "tier/stored_pages.h"
#include "tier/tier_queue.h"

// Copies in parallel with operations, on a device whose side streams are as late as possible.
namespace kvik {
namespace {

using host_run::HostDevice;
using Bytes = std::vector<std::byte>;

constexpr size_t kBytes = 1000;  // of a page; the contents do not matter
constexpr size_t kSystemPage = 4096;

struct Gpu {
  Gpu() {
    auto own = std::make_unique<HostDevice>();
    device = own.get();
    backend = std::move(*cuda::make_backend(std::move(own), 1));
  }
  Memory& memory() const { return backend->memory(); }

  // Counts of waits of the thread of operations.
  struct Waits {
    uint64_t n_all, n_copies, n_other_sequences;
    friend bool operator==(const Waits&, const Waits&) = default;
  };
  Waits waits() const {
    const cuda::DeviceCounters counters = device->counters();
    return {device->n_waits(), counters.n_copies_in + counters.n_copies_out,
            device->n_side_waits(std::this_thread::get_id())};
  }

  HostDevice* device;
  std::unique_ptr<Backend> backend;
};

Bytes bytes_of(uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(kBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Pages in a memory.
class Pages {
 public:
  Pages(Memory& memory, uint32_t n)
      : memory_(memory), pages_(memory.allocate(size_t{n} * kBytes)), n_(n) {}

  std::byte* at(uint32_t page) const { return pages_.data() + size_t{page} * kBytes; }
  void write(uint32_t page, const Bytes& bytes) { memory_.copy_in(at(page), bytes); }
  Bytes read(uint32_t page) {
    Bytes bytes(kBytes);
    memory_.copy_out(bytes, at(page));
    return bytes;
  }
  uint32_t n() const { return n_; }

 private:
  Memory& memory_;
  Buffer pages_;
  uint32_t n_;
};

// A lane and its slots on the host.
class Lane {
 public:
  Lane(Memory& memory, uint32_t n_slots) {
    std::vector<std::span<std::byte>> spans;
    for (uint32_t i = 0; i < n_slots; ++i) slots_.emplace_back(kBytes, kSystemPage);
    for (const AlignedBytes& slot : slots_) spans.push_back(slot.span());
    lane_ = memory.make_lane(std::move(spans));
  }
  CopyLane* operator->() { return lane_.get(); }
  std::span<std::byte> slot(uint32_t i) const { return slots_[i].span(); }
  Bytes bytes(uint32_t i) const { return {slot(i).begin(), slot(i).end()}; }

 private:
  std::vector<AlignedBytes> slots_;
  std::unique_ptr<CopyLane> lane_;
};

TEST(CudaCopyLane, what_goes_out_is_what_stood_there_when_it_began) {
  const Gpu gpu;
  Pages pages(gpu.memory(), 1);
  Lane lane(gpu.memory(), 1);
  for (uint32_t i = 0; i < 3; ++i) {
    pages.write(0, bytes_of(i));
    const auto before = gpu.waits();
    lane->begin_out(0, pages.at(0));
    gpu.memory().clear(pages.at(0), kBytes);
    EXPECT_EQ(gpu.waits(), before);
    ASSERT_TRUE(lane->finish(0));
    EXPECT_EQ(lane.bytes(0), bytes_of(i));
    EXPECT_EQ(pages.read(0), Bytes(kBytes));
  }
}

// A failing tier releases the slots of pages that wait for it.
TEST(CudaCopyLane, a_slot_that_was_given_up_goes_out_again) {
  const Gpu gpu;
  Pages pages(gpu.memory(), 1);
  Lane lane(gpu.memory(), 1);
  for (uint32_t i = 0; i < 2; ++i) {
    pages.write(0, bytes_of(i));
    lane->begin_out(0, pages.at(0));
  }
  ASSERT_TRUE(lane->finish(0));
  EXPECT_EQ(lane.bytes(0), bytes_of(1));
}

TEST(CudaCopyLane, what_is_placed_stands_in_the_order_of_operations) {
  const Gpu gpu;
  Pages pages(gpu.memory(), 4);
  Lane lane(gpu.memory(), 1);
  pages.write(0, bytes_of(0));
  for (uint32_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(lane->finish(0));  // waits for the previous copy
    std::ranges::copy(bytes_of(i), lane.slot(0).begin());
    ASSERT_TRUE(lane->begin_in(0));
    const auto before = gpu.waits();
    gpu.memory().copy(pages.at(1), pages.at(0), kBytes);
    lane->place(0, pages.at(0));
    gpu.memory().copy(pages.at(2), pages.at(0), kBytes);
    EXPECT_EQ(gpu.waits(), before);
    EXPECT_EQ(pages.read(1), bytes_of(i - 1));
    EXPECT_EQ(pages.read(2), bytes_of(i));
  }
}

// A canceled fetch leaves its slot without placing it.
TEST(CudaCopyLane, a_slot_that_was_not_placed_is_filled_again) {
  const Gpu gpu;
  Pages pages(gpu.memory(), 1);
  Lane lane(gpu.memory(), 1);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(lane->finish(0));
    std::ranges::copy(bytes_of(i), lane.slot(0).begin());
    ASSERT_TRUE(lane->begin_in(0));
  }
  lane->place(0, pages.at(0));
  EXPECT_EQ(pages.read(0), bytes_of(1));
}

// Compares with a plain model: a slot is free, or has a copy in flight with the bytes of a seed.
TEST(CudaCopyLane, many_slots_in_any_order) {
  constexpr uint32_t kSlots = 5;
  const Gpu gpu;
  std::mt19937 random(1);
  Pages pages(gpu.memory(), 8);
  std::vector<uint32_t> seeds(pages.n());
  for (uint32_t i = 0; i < pages.n(); ++i) pages.write(i, bytes_of(seeds[i] = i));
  Lane out(gpu.memory(), kSlots), in(gpu.memory(), kSlots);
  std::array<std::optional<uint32_t>, kSlots> going, coming;
  for (uint32_t step = 0; step < 2000; ++step) {
    const uint32_t slot = random() % kSlots, page = random() % pages.n();
    if (random() % 2 == 0) {
      if (!going[slot]) {
        out->begin_out(slot, pages.at(page));
        going[slot] = seeds[page];
      } else {
        ASSERT_TRUE(out->finish(slot));
        ASSERT_EQ(out.bytes(slot), bytes_of(*going[slot]));
        going[slot].reset();
      }
    } else if (!coming[slot]) {
      ASSERT_TRUE(in->finish(slot));
      coming[slot] = 100 + step;
      std::ranges::copy(bytes_of(100 + step), in.slot(slot).begin());
      ASSERT_TRUE(in->begin_in(slot));
    } else {
      in->place(slot, pages.at(page));
      seeds[page] = *std::exchange(coming[slot], std::nullopt);
    }
    if (step % 8 == 0) {
      const uint32_t other = (page + 1) % pages.n();
      gpu.memory().copy(pages.at(other), pages.at(page), kBytes);
      seeds[other] = seeds[page];
    }
  }
  for (uint32_t i = 0; i < pages.n(); ++i) EXPECT_EQ(pages.read(i), bytes_of(seeds[i]));
}

TEST(CudaCopyLane, slots_that_cannot_be_pinned_are_waited_for) {
  const Gpu gpu;
  gpu.device->refuse_pins();
  Pages pages(gpu.memory(), 1);
  Lane lane(gpu.memory(), 2);
  pages.write(0, bytes_of(1));
  const auto before = gpu.waits();
  lane->begin_out(0, pages.at(0));
  EXPECT_EQ(gpu.waits().n_other_sequences, before.n_other_sequences + 1);
  gpu.memory().clear(pages.at(0), kBytes);
  ASSERT_TRUE(lane->finish(0));
  EXPECT_EQ(lane.bytes(0), bytes_of(1));
}

TEST(CudaCopyLane, gives_back_its_staging) {
  const Gpu gpu;
  const uint64_t before = gpu.device->held_bytes();
  {
    const Lane lane(gpu.memory(), 3);
    EXPECT_EQ(gpu.device->held_bytes(), before + 3 * kBytes);
  }
  EXPECT_EQ(gpu.device->held_bytes(), before);
}

TEST(CudaCopyLane, says_on_any_thread_that_the_device_is_gone_and_ends_on_that_of_operations) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Gpu gpu;
  Pages pages(gpu.memory(), 1);
  Lane lane(gpu.memory(), 2);
  lane->begin_out(0, pages.at(0));
  gpu.device->disappear();
  const auto finished = lane->finish(0);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::kIo);
  EXPECT_FALSE(lane->begin_in(1));
  const auto ends = [](const auto& function) {
    log::init("info");
    function();
  };
  EXPECT_EXIT(ends([&] { lane->begin_out(1, pages.at(0)); }), ::testing::ExitedWithCode(1),
              "the GPU is gone.*cannot continue without the GPU");
  EXPECT_EXIT(ends([&] { lane->place(1, pages.at(0)); }), ::testing::ExitedWithCode(1),
              "the GPU is gone.*cannot continue without the GPU");
}

// A tier in memory that can be blocked before it writes.
class HeldTier final : public Tier {
 public:
  Get get(TierPage& wanted, SharingMark, std::span<std::byte> slot, size_t) override {
    const std::scoped_lock lock(mutex_);
    const auto found = pages_.find(wanted.key.bytes);
    if (found == pages_.end()) return Get::kAbsent;
    std::ranges::copy(found->second, slot.subspan(head_bytes()).begin());
    return Get::kFound;
  }
  std::vector<Child> children(const PageKey&, uint32_t, SharingMark, size_t) override { return {}; }
  Result<void> put(std::span<Put> pages) override {
    std::unique_lock lock(mutex_);
    ++n_puts_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_; });
    for (const Put& put : pages) {
      const auto bytes = put.slot.subspan(head_bytes(), put.n_bytes);
      pages_[put.page.key.bytes] = {bytes.begin(), bytes.end()};
    }
    return {};
  }
  size_t head_bytes() const override { return 64; }
  size_t alignment() const override { return 64; }
  size_t slot_bytes(size_t n_page_bytes) const override { return head_bytes() + n_page_bytes; }
  Result<void> recover() override { return {}; }
  Result<void> tidy_up() override { return {}; }
  TierSize size() const override { return {}; }

  void hold(bool is_held) {
    const std::scoped_lock lock(mutex_);
    is_held_ = is_held;
    changed_.notify_all();
  }
  void wait_for_puts(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_puts_ >= n; });
  }
  size_t n_pages() {
    const std::scoped_lock lock(mutex_);
    return pages_.size();
  }

 private:
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::map<std::array<std::byte, 32>, Bytes> pages_;
  size_t n_puts_ = 0;
  bool is_held_ = false;
};

constexpr std::chrono::seconds kTimeout{60};
const PageKey kRoot = root_key("a model", "");

// A queue between a tier and a device, used as the engine uses it.
class TierRig {
 public:
  explicit TierRig(uint32_t n_slots)
      : held_before_(gpu_.device->held_bytes()),
        queue_(tier_, gpu_.memory(),
               {.page_bytes = kBytes, .n_write_slots = n_slots, .n_read_slots = n_slots},
               [this] { wake(); }) {}
  ~TierRig() { tier_.hold(false); }

  const Gpu& gpu() const { return gpu_; }
  HeldTier& tier() { return tier_; }
  TierQueue& queue() { return queue_; }
  uint64_t staging_bytes() const { return gpu_.device->held_bytes() - held_before_; }

  void save(const TierPage& page, const std::byte* bytes) {
    while (!queue_.save(page, bytes)) wait();
  }
  // Places the pages of a chain one after the other. Returns the number of pages that were read.
  uint32_t fetch(std::span<const StoredPage> chain, const Pages& into) {
    std::vector<TokenId> tokens;
    for (const StoredPage& page : chain) {
      tokens.insert(tokens.end(), page.page.tokens.begin(), page.page.tokens.end());
    }
    queue_.fetch({.id = FetchId{1},
                  .root = kRoot,
                  .parent = kRoot,
                  .n_before = 0,
                  .tokens = std::move(tokens),
                  .rules = rules_of({0})});
    uint32_t n = 0;
    for (bool is_over = false; !is_over;) {
      wait();
      queue_.take_arrivals([&](const TierArrival& arrival) {
        is_over = arrival.end.has_value();
        if (!is_over) arrival.bytes.place(into.at(n++));
      });
    }
    return n;
  }

 private:
  void wake() {
    const std::scoped_lock lock(mutex_);
    is_woken_ = true;
    woken_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, kTimeout, [&] { return is_woken_; });
    is_woken_ = false;
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  Gpu gpu_;
  HeldTier tier_;
  const uint64_t held_before_;
  TierQueue queue_;
};

TEST(CudaTierQueue, pages_go_and_come_while_the_engine_thread_waits_for_nothing) {
  constexpr uint32_t kPages = 40, kSlots = 4;
  TierRig rig(kSlots);
  EXPECT_EQ(rig.staging_bytes(), 2 * kSlots * kBytes);
  // The memory that the budget reserves for them.
  EXPECT_LE(rig.staging_bytes(), 2 * kSlots * TierQueue::bytes_per_slot(rig.tier(), kBytes));
  Memory& memory = rig.gpu().memory();
  const auto chain = chain_of_pages(kRoot, 32 * kPages, 1, kBytes);
  Pages pages(memory, kPages);
  for (uint32_t i = 0; i < kPages; ++i) pages.write(i, chain[i].bytes);
  const auto before = rig.gpu().waits();
  for (uint32_t i = 0; i < kPages; ++i) {
    rig.save(chain[i].page, pages.at(i));
    memory.clear(pages.at(i), kBytes);
  }
  rig.queue().flush(kTimeout);
  EXPECT_EQ(rig.fetch(chain, pages), kPages);
  EXPECT_EQ(rig.gpu().waits(), before);
  for (uint32_t i = 0; i < kPages; ++i) EXPECT_EQ(pages.read(i), chain[i].bytes);
  EXPECT_EQ(rig.queue().counters().pages_written, kPages);
  EXPECT_EQ(rig.queue().counters().pages_read, kPages);
}

TEST(CudaTierQueue, what_had_not_come_out_of_a_device_that_disappears_is_dropped) {
  TierRig rig(4);
  const auto chain = chain_of_pages(kRoot, 32 * 3, 1, kBytes);
  Pages pages(rig.gpu().memory(), 3);
  for (uint32_t i = 0; i < 3; ++i) pages.write(i, chain[i].bytes);
  rig.tier().hold(true);
  rig.save(chain[0].page, pages.at(0));
  rig.tier().wait_for_puts(1);
  rig.save(chain[1].page, pages.at(1));
  rig.save(chain[2].page, pages.at(2));
  rig.gpu().device->disappear();
  rig.tier().hold(false);
  rig.queue().flush(kTimeout);
  EXPECT_EQ(rig.tier().n_pages(), 1u);
  EXPECT_EQ(rig.queue().counters().pages_written, 1u);
  EXPECT_FALSE(rig.queue().counters().is_degraded);
}

}  // namespace
}  // namespace kvik
