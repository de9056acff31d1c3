#include "model/row_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "support/memory_source.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

std::shared_ptr<MemorySource> source_of(const std::string& name) {
  return std::make_shared<MemorySource>(**make_synthetic("synthetic:" + name));
}

const RowTable& table_of(const Model& model) {
  return model.ngram_table() ? *model.ngram_table() : *model.per_layer().table;
}

std::vector<float> rows_of(const Model& model, Backend& backend, const std::vector<TokenId>& rows) {
  const ModelConfig& c = model.config();
  const uint32_t n_cols = c.ngrams ? c.ngrams->row_dim : c.n_layers * c.per_layer_dim;
  std::vector<float> out(rows.size() * n_cols);
  table_of(model).look_up(backend, rows,
                          {out.data(), static_cast<uint32_t>(rows.size()), n_cols, n_cols});
  return out;
}

TEST(RowTable, rows_have_the_same_bits_in_memory_and_in_the_file) {
  const auto backend = make_test_backend();
  for (const char* family : {"test-gemma3n", "test-gemma4-e", "test-qwen4exp"}) {
    for (const char* type : {"f32", "bf16", "q8_0", "q4_0"}) {
      const std::string name = std::string(family) + ":" + type;
      const auto in_memory = Model::load(*source_of(name), *backend, nullptr);
      const auto source = source_of(name);
      source->leave_tables_in_file();
      const auto in_file = Model::load(*source, *backend, nullptr, {.file = source});
      ASSERT_TRUE(in_memory && in_file) << name;
      EXPECT_EQ((*in_file)->fingerprint(), (*in_memory)->fingerprint()) << name;
      const TensorInfo& table = source->info("per_layer_token_embd.weight");
      EXPECT_EQ((*in_file)->weight_bytes() +
                    backend->packed_bytes(table.type, table.shape[0], table.shape[1]),
                (*in_memory)->weight_bytes());
      for (const std::vector<TokenId>& rows : {std::vector<TokenId>{}, {3}, {199, 0, 7, 7, 100}}) {
        EXPECT_EQ(rows_of(**in_file, *backend, rows), rows_of(**in_memory, *backend, rows)) << name;
      }
    }
  }
}

TEST(RowTable, a_table_that_stays_in_the_file_is_checked_when_the_model_is_loaded) {
  const auto backend = make_test_backend();
  const auto source = source_of("test-gemma4-e:f32");
  auto [info, bytes] = source->take("per_layer_token_embd.weight");
  bytes[bytes.size() - 1] = bytes[bytes.size() - 2] = std::byte{0xff};  // the last number is NaN
  source->add(info, bytes);
  source->leave_tables_in_file();
  const auto model = Model::load(*source, *backend, nullptr, {.file = source});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(model.error().message.find("'per_layer_token_embd.weight' holds a value that is not a "
                                       "finite number"),
            std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace kvik
