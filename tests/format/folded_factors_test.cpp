#include "format/folded_factors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "format/source_config.h"
#include "format/synthetic/synthetic.h"

namespace kvik {
namespace {

std::unique_ptr<ModelSource> opened(const std::string& name) {
  auto source = make_synthetic(name);
  EXPECT_TRUE(source.has_value());
  return source ? std::move(*source) : nullptr;
}

std::vector<float> floats_of(ModelSource& source, const std::string& name) {
  const auto index = source.find(name);
  EXPECT_TRUE(index.has_value()) << name;
  const TensorInfo& info = source.tensors()[*index];
  EXPECT_EQ(info.type, ElementType::kF32) << name;
  const auto bytes = source.read_range(*index, 0, info.n_bytes);
  EXPECT_TRUE(bytes.has_value());
  std::vector<float> values(info.n_elements());
  std::memcpy(values.data(), bytes->data(), info.n_bytes);
  source.release(*index);
  return values;
}

TEST(FoldedFactors, are_parts_of_the_weights_and_no_keys_any_more) {
  const auto plain = opened("synthetic:test-falconh1:f32");
  const auto folded = opened("synthetic:test-falconh1:f32");
  ASSERT_TRUE(fold_factors(*folded).has_value());
  const auto before = config_of(*plain);
  const auto after = config_of(*folded);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->logit_scale, 1.0f);
  EXPECT_EQ(after->layers[1].attention().value_scale, 1.0f);
  EXPECT_EQ(after->layers[1].beside->out_scale, 1.0f);
  EXPECT_EQ(after->layers[1].beside->in_scales[0], 1.0f);
  const StateSpaceConfig& space = *before->layers[1].beside;
  const auto expect_scaled = [&](const std::string& name, size_t at, float factor) {
    const std::vector<float> x = floats_of(*plain, name), y = floats_of(*folded, name);
    ASSERT_EQ(x.size(), y.size());
    EXPECT_EQ(y[at], x[at] * factor) << name;
  };
  expect_scaled("output.weight", 5, before->logit_scale);
  expect_scaled("blk.1.attn_v.weight", 5, before->layers[1].attention().value_scale);
  expect_scaled("blk.1.ssm_out.weight", 5, space.out_scale);
  expect_scaled("blk.1.attn_q.weight", 5, 1.0f);
  size_t row = 0;
  for (size_t part = 0; part < space.in_widths().size(); row += space.in_widths()[part++]) {
    expect_scaled("blk.1.ssm_in.weight", row * before->model_dim, space.in_scales[part]);
  }
}

TEST(FoldedFactors, leave_other_models_unchanged) {
  const auto source = opened("synthetic:test-granitehybrid:f32");
  const size_t n_keys = source->metadata().values().size();
  ASSERT_TRUE(fold_factors(*source).has_value());
  EXPECT_EQ(source->metadata().values().size(), n_keys);
}

}  // namespace
}  // namespace kvik
