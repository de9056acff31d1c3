#include "host/local_adapter_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "model/adapter.h"
#include "support/adapter_files.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

using ::testing::HasSubstr;

class LocalAdapterRegistryTest : public testing::Test {
 protected:
  // Writes a file with one pair of that rank and returns its path.
  std::string file(const std::string& name, uint64_t rank = 4, const std::string& below = "") {
    const std::string folder = folder_.path() + below;
    std::filesystem::create_directories(folder);
    const std::string path = folder + "/" + name + ".gguf";
    const auto bytes =
        gguf_adapter("blk.1.ffn_down.weight", 64, 160, rank, 8.0 * name.size()).bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  LocalAdapterRegistry registry(AdapterOptions options = {}) {
    return LocalAdapterRegistry({*tiny_.model, *tiny_.backend, "synthetic:test-llama:f32"},
                                options);
  }
  uint64_t one_bytes() {
    LocalAdapterRegistry one = registry();
    return one.add("x", file("x"), AdapterOrigin::kOperator)->loaded->bytes;
  }

  const TemporaryFolder folder_;
  const TinyModel tiny_ = load_tiny();
};

TEST_F(LocalAdapterRegistryTest, an_adapter_is_read_when_it_is_named_and_found_by_its_name) {
  LocalAdapterRegistry all = registry({.named = {"poet=" + file("a") + ":0.5"}});
  ASSERT_TRUE(all.add_named().has_value());
  EXPECT_TRUE(all.has("poet"));
  EXPECT_FALSE(all.has("po"));
  const auto cards = all.list();
  ASSERT_EQ(cards.size(), 1u);
  EXPECT_EQ(cards[0].name, "poet");
  EXPECT_EQ(cards[0].scale, 0.5f);
  ASSERT_TRUE(cards[0].loaded.has_value());
  EXPECT_EQ(cards[0].loaded->rank, 4u);
  EXPECT_EQ(cards[0].loaded->bytes, all.held_bytes());
  const auto taken = all.take("poet");
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ((*taken)->digest(), cards[0].loaded->digest);
  EXPECT_EQ(all.take("bard").error().code, ErrorCode::kNotFound);
}

TEST_F(LocalAdapterRegistryTest, what_is_no_name_or_no_file_is_refused) {
  const std::string path = file("a");
  LocalAdapterRegistry all = registry();
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a:b"),
                                  std::string("/a"), std::string("é"), std::string(129, 'a')}) {
    EXPECT_EQ(all.add(name, path, AdapterOrigin::kOperator).error().code,
              ErrorCode::kInvalidArgument)
        << name;
  }
  EXPECT_TRUE(all.add("org/poet-1.0_b", path, AdapterOrigin::kOperator).has_value());
  EXPECT_THAT(all.add("org/poet-1.0_b", path, AdapterOrigin::kOperator).error().message,
              HasSubstr("exists already"));
  EXPECT_EQ(all.add("other", path + "x", AdapterOrigin::kOperator).error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE(registry({.named = {path}}).add_named().has_value());
}

TEST_F(LocalAdapterRegistryTest, the_least_recently_used_one_makes_room_and_is_read_again) {
  const uint64_t bytes = one_bytes();
  LocalAdapterRegistry all = registry({.budget_bytes = 2 * bytes});
  for (const char* name : {"a", "bb"}) {
    ASSERT_TRUE(all.add(name, file(name), AdapterOrigin::kOperator).has_value());
  }
  ASSERT_TRUE(all.take("a").has_value());
  ASSERT_TRUE(all.add("ccc", file("ccc"), AdapterOrigin::kOperator).has_value());
  EXPECT_TRUE(all.is_loaded("a"));
  EXPECT_FALSE(all.is_loaded("bb"));
  EXPECT_TRUE(all.has("bb"));
  EXPECT_EQ(all.held_bytes(), 2 * bytes);
  ASSERT_TRUE(all.take("bb").has_value());
  EXPECT_FALSE(all.is_loaded("a"));
  EXPECT_EQ(all.held_bytes(), 2 * bytes);
}

TEST_F(LocalAdapterRegistryTest, those_in_use_stay_and_the_budget_holds) {
  const uint64_t bytes = one_bytes();
  LocalAdapterRegistry all = registry({.budget_bytes = 2 * bytes});
  ASSERT_TRUE(all.add("a", file("a"), AdapterOrigin::kOperator).has_value());
  ASSERT_TRUE(all.add("bb", file("bb"), AdapterOrigin::kOperator).has_value());
  auto a = all.take("a");
  auto b = all.take("bb");
  EXPECT_EQ(all.add("ccc", file("ccc"), AdapterOrigin::kOperator).error().code,
            ErrorCode::kExhausted);
  // A removed adapter uses memory until its last user releases it.
  ASSERT_TRUE(all.remove("a").has_value());
  EXPECT_EQ(all.held_bytes(), 2 * bytes);
  EXPECT_FALSE(all.add("ccc", file("ccc"), AdapterOrigin::kOperator).has_value());
  a->reset();
  EXPECT_EQ(all.held_bytes(), bytes);
  EXPECT_TRUE(all.add("ccc", file("ccc"), AdapterOrigin::kOperator).has_value());
  EXPECT_EQ(all.remove("a").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(all.add("big", file("big", 256), AdapterOrigin::kOperator).error().message,
              HasSubstr("all adapters together"));
}

TEST_F(LocalAdapterRegistryTest, clients_load_from_below_the_folder_alone) {
  const std::string inside = file("a", 4, "/shared/deep");
  const std::string outside = file("bb");
  EXPECT_THAT(registry().add("a", inside, AdapterOrigin::kClient).error().message,
              HasSubstr("--adapter-folder"));
  LocalAdapterRegistry all = registry({.folder = folder_.path() + "/shared"});
  EXPECT_TRUE(all.add("a", inside, AdapterOrigin::kClient).has_value());
  EXPECT_TRUE(all.add("relative", "deep/a.gguf", AdapterOrigin::kClient).has_value());
  std::filesystem::create_symlink(outside, folder_.path() + "/shared/link.gguf");
  for (const std::string& path :
       {outside, std::string("../bb.gguf"), std::string("deep/../../bb.gguf"),
        std::string("link.gguf"), std::string("none.gguf"), std::string("."), folder_.path()}) {
    const auto refused = all.add("other", path, AdapterOrigin::kClient);
    ASSERT_FALSE(refused.has_value()) << path;
    EXPECT_EQ(refused.error().param, "path") << path;
    EXPECT_THAT(refused.error().message, HasSubstr("below that of --adapter-folder")) << path;
  }
}

TEST_F(LocalAdapterRegistryTest, tensors_of_a_folder_may_be_no_link_out_of_it) {
  const std::string shared = folder_.path() + "/shared";
  const std::string outside = file("secret");
  std::filesystem::create_directories(shared + "/peft");
  std::ofstream(shared + "/peft/adapter_config.json") << "{}";
  std::filesystem::create_symlink(outside, shared + "/peft/adapter_model.safetensors");
  LocalAdapterRegistry all = registry({.folder = shared});
  const auto refused = all.add("a", "peft", AdapterOrigin::kClient);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("below that of --adapter-folder"));
}

TEST_F(LocalAdapterRegistryTest, a_path_with_a_nul_byte_is_not_the_path_before_it) {
  file("a", 4, "/shared");
  LocalAdapterRegistry all = registry({.folder = folder_.path() + "/shared"});
  const auto refused = all.add("a", std::string("a.gguf\0x", 8), AdapterOrigin::kClient);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("NUL"));
}

TEST_F(LocalAdapterRegistryTest, many_threads_take_and_drop_adapters_within_the_budget) {
  const uint64_t bytes = one_bytes();
  constexpr uint32_t kThreads = 6;
  LocalAdapterRegistry all = registry({.budget_bytes = (kThreads + 1) * bytes});
  std::vector<std::string> names;
  for (uint32_t i = 0; i < 20; ++i) {
    names.push_back(std::string(1 + i, 'n'));
    ASSERT_TRUE(all.add(names.back(), file(names.back()), AdapterOrigin::kOperator).has_value());
  }
  std::atomic<uint32_t> n_wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 60; ++i) {
        const auto taken = all.take(names[(7 * t + 3 * i) % names.size()]);
        n_wrong +=
            !taken || (*taken)->bytes() != bytes || all.held_bytes() > (kThreads + 1) * bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0u);
}

}  // namespace
}  // namespace kvik
