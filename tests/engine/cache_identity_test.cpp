#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/memory_source.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

MemorySource source_of(const std::string& name) {
  const auto original = make_synthetic("synthetic:" + name);
  CHECK(original.has_value());
  return MemorySource(**original);
}

std::string identity_of(ModelSource& source, KvType type = KvType::kInt8) {
  return EngineRig({.kv_type = type}, load_tiny(source)).engine().cache_identity();
}

TEST(CacheIdentity, the_same_model_and_type_find_each_others_pages) {
  MemorySource source = source_of("test-llama:q8_0");
  EXPECT_EQ(identity_of(source), identity_of(source));
}

TEST(CacheIdentity, every_kv_type_has_pages_of_its_own) {
  MemorySource source = source_of("test-llama:q8_0");
  std::set<std::string> all;
  for (const KvType type : kAllKvTypes) all.insert(identity_of(source, type));
  EXPECT_EQ(all.size(), std::size(kAllKvTypes));
}

// Two models can have the same name: a fine-tuned model must not use pages of its base model.
TEST(CacheIdentity, models_with_equal_names_do_not_share_pages) {
  MemorySource source = source_of("test-llama:q8_0");
  const std::string before = identity_of(source);
  MemorySource::Tensor tensor = source.take("blk.1.ffn_down.weight");
  tensor.bytes[100] ^= std::byte{1};
  source.add(tensor.info, tensor.bytes);
  EXPECT_NE(identity_of(source), before);
}

TEST(CacheIdentity, another_rope_base_is_another_model) {
  MemorySource source = source_of("test-llama:q8_0");
  const std::string before = identity_of(source);
  source.set("llama.rope.freq_base", 20000.0);
  EXPECT_NE(identity_of(source), before);
}

}  // namespace
}  // namespace kvik
