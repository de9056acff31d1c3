#include "model/fingerprint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

#include "support/memory_source.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

MemorySource source_of(const std::string& name) {
  const auto original = make_synthetic("synthetic:" + name);
  CHECK(original.has_value());
  return MemorySource(**original);
}

std::string fingerprint_of(ModelSource& source, uint32_t n_threads = 1) {
  return load_tiny(source, n_threads).model->fingerprint();
}

std::string fingerprint_of(const std::string& name) {
  MemorySource source = source_of(name);
  return fingerprint_of(source);
}

TEST(Fingerprint, the_same_model_loaded_twice_is_the_same_whatever_the_threads) {
  MemorySource source = source_of("test-llama:q4_0");
  const std::string first = fingerprint_of(source);
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(fingerprint_of(source), first);
  EXPECT_EQ(fingerprint_of(source, 3), first);
}

TEST(Fingerprint, presets_and_types_have_fingerprints_of_their_own) {
  std::set<std::string> all;
  for (const char* name : {"test-llama:f32", "test-llama:q8_0", "test-mqa:f32", "test-qwen3:f32"}) {
    all.insert(fingerprint_of(name));
  }
  EXPECT_EQ(all.size(), 4u);
}

// Changes the last byte of a vector, of fused matrices and of single matrices.
TEST(Fingerprint, another_byte_in_any_tensor_is_another_model) {
  MemorySource source = source_of("test-qwen2:bf16");
  const std::string before = fingerprint_of(source);
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "output.weight", "blk.0.attn_norm.weight",
        "blk.0.attn_k.weight", "blk.1.attn_v.bias", "blk.1.attn_output.weight",
        "blk.1.ffn_up.weight", "blk.1.ffn_down.weight"}) {
    MemorySource changed = source_of("test-qwen2:bf16");
    MemorySource::Tensor tensor = changed.take(name);
    tensor.bytes.back() ^= std::byte{1};
    changed.add(tensor.info, tensor.bytes);
    MemorySource moved = source_of("test-qwen2:bf16");  // moved to the same position, not changed
    MemorySource::Tensor same = moved.take(name);
    moved.add(same.info, same.bytes);
    EXPECT_NE(fingerprint_of(changed), fingerprint_of(moved)) << name;
    EXPECT_NE(fingerprint_of(changed), before) << name;
  }
}

TEST(Fingerprint, another_metadata_value_is_another_model) {
  const std::string before = fingerprint_of("test-llama:f32");
  const Metadata::Value values[] = {std::string("another name"),
                                    uint64_t{7},
                                    int64_t{7},
                                    7.0,
                                    true,
                                    std::vector<std::string>{"a", "b"},
                                    std::vector<std::string>{"ab"}};
  std::set<std::string> all = {before};
  for (const Metadata::Value& value : values) {
    MemorySource source = source_of("test-llama:f32");
    source.set("general.note", value);
    all.insert(fingerprint_of(source));
  }
  EXPECT_EQ(all.size(), 1 + std::size(values));
}

TEST(Numerics, name_the_arithmetic_if_it_differs) {
  const std::string plain = numerics({});
  EXPECT_EQ(numerics({}), plain);
  EXPECT_NE(numerics({"avx512bf16"}), plain);
}

// All instruction sets give the same bits, except avx512bf16 and amx with bf16 weights: their pages
// must not be mixed with others.
TEST(Numerics, instruction_sets_share_what_they_agree_on) {
  for (const char* type : {"f32", "q8_0", "bf16"}) {
    std::set<std::string> all;
    size_t n_isas = 0;
    size_t n_own = 0;
    for (const std::string_view isa : cpu_isa_names()) {
      const auto tiny =
          load_tiny({.name = fmt::format("test-llama:{}", type), .isa = std::string(isa)});
      all.insert(tiny.model->numerics());
      const bool is_own = isa == "avx512bf16" || isa == "amx";
      n_own += is_own && std::string_view(type) == "bf16";
      ++n_isas;
    }
    EXPECT_EQ(all.size(), 1 + n_own) << type << " on " << n_isas << " sets";
  }
}

}  // namespace
}  // namespace kvik
