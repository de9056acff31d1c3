#include "model/model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "backend/forwarding_backend.h"
#include "catalogue/tensor_roles.h"
#include "model/decoder.h"
#include "support/memory_source.h"
#include "support/test_presets.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

using testing::HasSubstr;

MemorySource source_of(const std::string& name) {
  const auto original = make_synthetic("synthetic:" + name);
  CHECK(original.has_value());
  return MemorySource(**original);
}

std::vector<std::string> names_in(const ModelSource& source) {
  std::vector<std::string> names;
  for (const TensorInfo& info : source.tensors()) names.push_back(info.name);
  return names;
}

class ModelTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Model>> load(ModelSource& source) {
    return Model::load(source, *backend_, nullptr);
  }
  Error error_of(ModelSource& source) {
    const auto model = load(source);
    EXPECT_FALSE(model.has_value());
    return model ? Error{ErrorCode::kIo, "", ""} : model.error();
  }

  std::unique_ptr<Backend> backend_ = make_test_backend();
};

TEST_F(ModelTest, every_family_loads_in_every_type) {
  for (const std::string& family : test_presets()) {
    for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
      MemorySource source = source_of(family + ":" + type);
      const auto model = load(source);
      ASSERT_TRUE(model.has_value()) << model.error().message;
      EXPECT_EQ((*model)->layers().size(), (*model)->config().n_layers);
      EXPECT_GT((*model)->weight_bytes(), 0u);
    }
  }
}

TEST_F(ModelTest, every_byte_is_read_once_and_released) {
  for (const std::string& family : test_presets()) {
    MemorySource source = source_of(std::string(family) + ":f32");
    const auto model = load(source);
    ASSERT_TRUE(model.has_value());
    for (size_t i = 0; i < source.tensors().size(); ++i) {
      EXPECT_EQ(source.uses()[i].n_bytes_read, source.tensors()[i].n_bytes)
          << source.tensors()[i].name;
      EXPECT_EQ(source.uses()[i].n_releases, 1u) << source.tensors()[i].name;
    }
    EXPECT_EQ(source.n_lent(), 0u);
  }
}

TEST_F(ModelTest, no_more_of_the_source_is_held_than_one_matrix_is_packed_from) {
  MemorySource source = source_of("test-llama:f32");
  ASSERT_TRUE(load(source).has_value());
  EXPECT_EQ(source.n_lent_max(), 3u);  // Q, K and V
}

TEST_F(ModelTest, progress_rises_to_all_bytes) {
  MemorySource source = source_of("test-llama:q8_0");
  uint64_t all_bytes = 0;
  for (const TensorInfo& info : source.tensors()) all_bytes += info.n_bytes;
  uint64_t last = 0;
  const auto model = Model::load(source, *backend_, [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    EXPECT_EQ(all, all_bytes);
    last = done;
  });
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(last, all_bytes);
}

TEST_F(ModelTest, each_missing_tensor_is_named) {
  for (const std::string& family : test_presets()) {
    MemorySource source = source_of(std::string(family) + ":f32");
    const auto config = read_config(source.metadata());
    ASSERT_TRUE(config.has_value());
    const TensorTable table(*config);
    for (const std::string& name : names_in(source)) {
      // Optional: the embedding replaces the output head, rope divisors default to 1, and K serves
      // as V.
      if (table.find(*tensor_named(name))->is_optional) continue;
      auto [info, bytes] = source.take(name);
      const Error error = error_of(source);
      EXPECT_EQ(error.code, ErrorCode::kCorrupt);
      EXPECT_THAT(error.message, HasSubstr("'" + name + "' is missing"));
      source.add(std::move(info), std::move(bytes));
    }
  }
}

TEST_F(ModelTest, each_tensor_of_a_wrong_shape_is_named_with_both_shapes) {
  for (const std::string& family : test_presets()) {
    MemorySource source = source_of(std::string(family) + ":f32");
    for (const std::string& name : names_in(source)) {
      source.info(name).shape[0] += 1;
      const Error error = error_of(source);
      EXPECT_EQ(error.code, ErrorCode::kCorrupt);
      EXPECT_THAT(error.message, HasSubstr("'" + name + "' has the shape ["));
      EXPECT_THAT(error.message, HasSubstr("expected ["));
      source.info(name).shape[0] -= 1;
    }
  }
}

TEST_F(ModelTest, a_scale_that_is_no_number_is_refused_by_name) {
  MemorySource source = source_of("test-gptoss:mxfp4");
  auto [info, bytes] = source.take("blk.1.ffn_down_exps.weight");
  bytes[bytes.size() - 17] = std::byte{0xff};
  source.add(std::move(info), std::move(bytes));
  const Error error = error_of(source);
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(
      error.message,
      HasSubstr("'blk.1.ffn_down_exps.weight' has a scale of 255, which is not a valid scale of "
                "mxfp4, expected 0 to 254"));
}

TEST_F(ModelTest, a_weight_that_is_not_finite_is_refused_by_the_name_of_its_tensor) {
  // The last two bytes of q8_0 and q4_0 are levels; the scale is before them.
  const std::tuple<const char*, size_t, const char*> cases[] = {{"f32", 2, "value"},
                                                                {"f16", 2, "value"},
                                                                {"bf16", 2, "value"},
                                                                {"q8_0", 34, "scale"},
                                                                {"q4_0", 18, "scale"}};
  for (const auto& [type, from_end, what] : cases) {
    MemorySource source = source_of(std::string("test-llama:") + type);
    auto [info, bytes] = source.take("blk.1.attn_output.weight");
    bytes[bytes.size() - from_end + 1] = std::byte{0x7f};
    bytes[bytes.size() - from_end] = std::byte{0xff};
    source.add(std::move(info), std::move(bytes));
    const Error error = error_of(source);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message,
                HasSubstr(fmt::format("'blk.1.attn_output.weight' holds a {} that is not a finite "
                                      "number",
                                      what)));
  }
  MemorySource source = source_of("test-llama:q8_0");
  source.take("output_norm.weight");
  std::vector<float> norm(64, 1.0f);
  norm[63] = std::numeric_limits<float>::infinity();
  source.add_vector("output_norm.weight", norm);
  EXPECT_THAT(error_of(source).message,
              HasSubstr("'output_norm.weight' holds a number that is not finite"));
}

TEST_F(ModelTest, an_nvfp4_scale_that_is_no_number_is_refused_by_name) {
  for (const int scale : {0x7f, 0x80, 0xff}) {
    MemorySource source = source_of("test-llama:nvfp4");
    auto [info, bytes] = source.take("blk.1.attn_output.weight");
    bytes[bytes.size() - 33] = static_cast<std::byte>(scale);
    source.add(std::move(info), std::move(bytes));
    EXPECT_THAT(
        error_of(source).message,
        HasSubstr(fmt::format("'blk.1.attn_output.weight' has a scale of {}, which is not a "
                              "valid scale of nvfp4, expected 0 to 126",
                              scale)));
  }
}

TEST_F(ModelTest, a_matrix_where_a_vector_belongs_is_a_wrong_shape) {
  MemorySource source = source_of("test-llama:f32");
  source.info("output_norm.weight").shape = {64, 1};
  EXPECT_THAT(error_of(source).message, HasSubstr("'output_norm.weight' has the shape [64, 1]"));
}

TEST_F(ModelTest, a_tensor_that_nothing_computes_is_refused_not_ignored) {
  // A bias that the family does not have would be ignored in every product.
  for (const char* name :
       {"blk.0.ffn_gate_inp.bias", "blk.2.attn_norm.weight", "blk.0.attn_sinks"}) {
    MemorySource source = source_of("test-llama:f32");
    source.add_vector(name, std::vector<float>(64, 1.0f));
    const Error error = error_of(source);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr(std::string("'") + name + "'"));
    EXPECT_THAT(error.message, HasSubstr("'llama'"));
  }
}

TEST_F(ModelTest, a_bias_whose_neighbours_have_none_is_refused) {
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.ffn_gate.bias"}) {
    MemorySource source = source_of("test-llama:f32");
    source.add_vector(name, std::vector<float>(name[6] == 'a' ? 64 : 160, 1.0f));
    EXPECT_THAT(error_of(source).message, HasSubstr("all or none")) << name;
  }
}

TEST_F(ModelTest, a_second_tensor_of_the_same_name_is_refused) {
  MemorySource source = source_of("test-llama:f32");
  source.add_vector("output_norm.weight", std::vector<float>(64, 1.0f));
  EXPECT_THAT(error_of(source).message, HasSubstr("'output_norm.weight'"));
}

TEST_F(ModelTest, an_element_type_that_nothing_computes_is_named) {
  for (const char* name : {"blk.1.ffn_down.weight", "token_embd.weight", "output_norm.weight"}) {
    MemorySource source = source_of("test-llama:f32");
    source.info(name).type = ElementType::kQ8_K;
    const Error error = error_of(source);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr(std::string("'") + name + "' is of type q8_k"));
  }
}

TEST_F(ModelTest, heads_wider_than_the_backends_are_refused) {
  struct Narrow final : ForwardingBackend {
    Narrow(Backend& next, uint32_t most) : ForwardingBackend(next), max_head_dim_(most) {}
    uint32_t max_head_dim() const override { return max_head_dim_; }
    uint32_t max_head_dim_;
  };
  const auto source = make_synthetic("synthetic:test-llama:f32");
  const auto config = read_config((*source)->metadata());
  ASSERT_TRUE(config);
  const uint32_t head_dim = config->layers[0].attention().head_dim;
  Narrow just_enough(*backend_, head_dim), too_few(*backend_, head_dim - 1);
  const auto refused = Model::load(**source, too_few, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr(fmt::format("heads of {} dimensions, expected {} at most on {}", head_dim,
                                    head_dim - 1, backend_->name())));
  EXPECT_TRUE(Model::load(**source, just_enough, nullptr));
}

TEST_F(ModelTest, errors_begin_with_where_the_model_came_from) {
  MemorySource source = source_of("test-llama:f32");
  source.take("output_norm.weight");
  EXPECT_THAT(error_of(source).message, HasSubstr("synthetic:test-llama:f32: "));
}

TEST_F(ModelTest, a_vocabulary_of_another_size_than_the_embedding_is_refused) {
  MemorySource more_words = source_of("test-llama:f32");
  more_words.set("tokenizer.ggml.tokens", std::vector<std::string>(261, "w"));
  const Error error = error_of(more_words);
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("261"));
  EXPECT_THAT(error.message, HasSubstr("260"));

  MemorySource fewer_rows = source_of("test-llama:f32");
  fewer_rows.info("token_embd.weight").shape = {259, 64};
  EXPECT_THAT(error_of(fewer_rows).message, HasSubstr("'token_embd.weight'"));
}

TEST_F(ModelTest, a_bad_config_is_refused_before_any_tensor_is_read) {
  MemorySource source = source_of("test-llama:f32");
  source.set("llama.block_count", uint64_t{1} << 31);
  EXPECT_THAT(error_of(source).message, HasSubstr("'llama.block_count' is 2147483648"));
  for (const MemorySource::Use& use : source.uses()) EXPECT_EQ(use.n_bytes_read, 0u);
}

TEST_F(ModelTest, without_a_head_the_embedding_serves) {
  MemorySource tied = source_of("test-llama:f32");
  tied.take("output.weight");
  const auto model = load(tied);
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(&(*model)->head(), &(*model)->embedding());

  MemorySource untied = source_of("test-llama:f32");
  const auto with_head = load(untied);
  ASSERT_TRUE(with_head.has_value());
  EXPECT_NE(&(*with_head)->head(), &(*with_head)->embedding());
}

TEST_F(ModelTest, rope_divisors_are_taken_where_the_file_has_them) {
  MemorySource source = source_of("test-llama:f32");
  const std::vector<float> divisors = {1, 1, 1, 2, 4, 8, 8, 8};
  source.add_vector("rope_freqs.weight", divisors);
  const auto model = load(source);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ((*model)->rope_divisors(), divisors);
}

TEST_F(ModelTest, rope_divisors_that_cannot_divide_are_refused) {
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    MemorySource source = source_of("test-llama:f32");
    source.add_vector("rope_freqs.weight", {1, 1, 1, 2, bad, 8, 8, 8});
    const char* wrong =
        std::isnan(bad) ? "holds a number that is not finite" : "gives a divisor of";
    EXPECT_THAT(error_of(source).message, HasSubstr(std::string("'rope_freqs.weight' ") + wrong));
  }
  MemorySource short_one = source_of("test-llama:f32");
  short_one.add_vector("rope_freqs.weight", {1, 1, 1, 2});
  EXPECT_THAT(error_of(short_one).message, HasSubstr("'rope_freqs.weight' has the shape [4]"));
}

TEST_F(ModelTest, the_served_context_chooses_between_two_sets_of_rope_divisors) {
  for (const uint32_t n_ctx : {512u, 513u, 0u}) {  // 0: 2048, as trained
    MemorySource source = source_of("test-phi3:f32");
    source.take("rope_factors_long.weight");
    source.take("rope_factors_short.weight");
    source.add_vector("rope_factors_long.weight", std::vector<float>(6, 4.0f));
    source.add_vector("rope_factors_short.weight", std::vector<float>(6, 2.0f));
    const auto model = Model::load(source, *backend_, nullptr, {.n_ctx_max = n_ctx});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ((*model)->rope_divisors(), std::vector<float>(6, n_ctx == 512 ? 2.0f : 4.0f));
  }
}

// Pages computed with one set of divisors must not be used with the other.
TEST_F(ModelTest, the_choice_of_rope_divisors_is_part_of_the_numerics) {
  MemorySource source = source_of("test-phi3:f32");
  const auto of_short = Model::load(source, *backend_, nullptr, {.n_ctx_max = 512});
  const auto of_long = Model::load(source, *backend_, nullptr, {.n_ctx_max = 2048});
  ASSERT_TRUE(of_short.has_value() && of_long.has_value());
  EXPECT_EQ((*of_short)->fingerprint(), (*of_long)->fingerprint());
  EXPECT_NE((*of_short)->numerics(), (*of_long)->numerics());
}

TEST_F(ModelTest, two_sets_of_rope_divisors_need_the_original_context) {
  MemorySource source = source_of("test-llama:f32");
  source.add_vector("rope_factors_long.weight", std::vector<float>(8, 4.0f));
  source.add_vector("rope_factors_short.weight", std::vector<float>(8, 2.0f));
  EXPECT_THAT(error_of(source).message, HasSubstr("original_context_length' is missing"));
}

TEST_F(ModelTest, unused_k_and_v_of_layers_with_shared_kv_are_allowed) {
  MemorySource source = source_of("test-gemma4-e:f32");
  for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
    auto [info, bytes] = source.take(fmt::format("blk.4.{}", name));
    source.add(info, bytes);
    info.name = fmt::format("blk.9.{}", name);
    source.add(std::move(info), std::move(bytes));
  }
  const auto model = load(source);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const size_t unused = *source.find("blk.9.attn_k.weight");
  EXPECT_EQ(source.uses()[unused].n_bytes_read, 0u);
}

// Only loading computes the statistics. Decoders that are made from the model do not.
TEST_F(ModelTest, k_is_measured_once_by_loading_and_for_quantized_pages_alone) {
  struct Counting final : ForwardingBackend {
    using ForwardingBackend::ForwardingBackend;
    void matmul(Rows x, const PackedMatrix& w, Rows out) override {
      ++n_products;
      ForwardingBackend::matmul(x, w, out);
    }
    uint32_t n_products = 0;
  };
  Counting counting(*backend_);
  for (const KvType type : kAllKvTypes) {
    counting.n_products = 0;
    MemorySource source = source_of("test-llama:f32");
    const auto model = Model::load(source, counting, nullptr, {.kv_type = type});
    ASSERT_TRUE(model.has_value());
    EXPECT_EQ((*model)->key_statistics().is_measured(), is_quantized(type));
    EXPECT_EQ(counting.n_products > 0, is_quantized(type)) << name_of(type);
    const uint32_t of_loading = counting.n_products;
    for (int i = 0; i < 2; ++i) const Decoder decoder(**model, counting, type, 8);
    EXPECT_EQ(counting.n_products, of_loading) << name_of(type);
  }
}

TEST_F(ModelTest, latent_k_is_not_measured) {
  MemorySource source = source_of("test-mla:f32");
  const auto model = load(source);
  ASSERT_TRUE(model.has_value());
  EXPECT_FALSE((*model)->key_statistics().is_measured());
}

TEST_F(ModelTest, a_page_has_room_for_every_group) {
  const auto backend = make_test_backend();
  for (const std::string& family : test_presets()) {
    const MemorySource source = source_of(std::string(family) + ":f32");
    const auto config = read_config(source.metadata());
    ASSERT_TRUE(config.has_value());
    const LayerGroups groups = group_layers(*config);
    for (const KvType type : kAllKvTypes) {
      for (uint32_t group = 0; group < groups.n_groups(); ++group) {
        EXPECT_LE(backend->page_bytes(kv_geometry(groups, group, type)),
                  page_bytes(*config, type, *backend))
            << family;
      }
    }
  }
}

TEST_F(ModelTest, kv_geometry_is_that_of_a_layer_group) {
  MemorySource source = source_of("test-gemma3:f32");
  const auto model = load(source);
  ASSERT_TRUE(model.has_value());
  const KvGeometry geometry = kv_geometry(group_layers((*model)->config()), 0, KvType::kBF16);
  EXPECT_EQ(geometry.type, KvType::kBF16);
  EXPECT_EQ(geometry.n_layers, 1u);  // 5 with a window and 1 without
  EXPECT_EQ(geometry.n_kv_heads, 1u);
  EXPECT_EQ(geometry.head_dim, 32u);
}

}  // namespace
}  // namespace kvik
