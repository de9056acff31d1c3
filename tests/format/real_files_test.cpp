// Files written by other programs: the demo model, files of tools/make/make_model.py, vocabularies
// of llama.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "format/gguf/gguf.h"
#include "format/synthetic/synthetic.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

const std::filesystem::path kSource = KVIK_SOURCE_DIR;

uint64_t uint_of(const ModelSource& source, std::string_view key) {
  const auto value = source.metadata().get_uint(key);
  return value && *value ? **value : 0;
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "kvik_format_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

double deviation_of(ModelSource& source, size_t index) {
  const auto bytes = source.read(index);
  if (!bytes) return -1;
  std::vector<float> values(source.tensors()[index].n_elements());
  dequantize_row(source.tensors()[index].type, bytes->data(), values);
  double sum = 0, squares = 0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const float v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(RealFiles, the_demo_model_has_the_geometry_of_its_tensors) {
  const auto source = open_gguf((kSource / "models/demo.gguf").string());
  ASSERT_TRUE(source) << source.error().message;
  const auto architecture = (*source)->metadata().get_string("general.architecture");
  ASSERT_TRUE(architecture && *architecture);
  const std::string prefix = **architecture + ".";
  const auto embedding = (*source)->find("token_embd.weight");
  ASSERT_TRUE(embedding);
  const auto tokens = (*source)->metadata().get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens && *tokens);
  EXPECT_EQ(
      (*source)->tensors()[*embedding].shape,
      (std::vector<uint64_t>{(*tokens)->size(), uint_of(**source, prefix + "embedding_length")}));
  const uint64_t n_layers = uint_of(**source, prefix + "block_count");
  EXPECT_GT(n_layers, 0u);
  EXPECT_TRUE((*source)->find("blk." + std::to_string(n_layers - 1) + ".ffn_down.weight"));
  EXPECT_FALSE((*source)->find("blk." + std::to_string(n_layers) + ".ffn_down.weight"));
}

TEST(RealFiles, vocabularies_of_llama_cpp_open_where_they_are) {
  const auto folder = kSource.parent_path() / "shared/data/tokenizers";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto source = open_gguf(entry.path().string());
    ASSERT_TRUE(source) << source.error().message;
    const auto tokens = (*source)->metadata().get_strings("tokenizer.ggml.tokens");
    ASSERT_TRUE(tokens && *tokens) << entry.path();
    EXPECT_GT((*tokens)->size(), 30000u) << entry.path();
  }
}

// Files of make_model.py and synthetic models in memory differ only in their values.
TEST(RealFiles, a_model_of_make_model_py_matches_the_synthetic_one_of_its_name) {
  const TemporaryFolder folder;
  for (const std::string preset :
       {"test-llama", "test-qwen3", "test-gemma2", "test-gemma3", "test-llama3", "test-yarn",
        "test-qwen2moe", "test-phi3", "test-granite", "test-olmo2", "test-dense-first",
        "test-granitemoe"}) {
    const std::string type = preset == "test-llama" ? "q4_0" : "q8_0";
    const std::string path = folder.file(preset + ".gguf");
    const std::string command = "/usr/bin/python3 '" +
                                (kSource / "tools/make/make_model.py").string() + "' --preset " +
                                preset + " --type " + type + " '" + path + "' 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    const auto written = open_gguf(path);
    ASSERT_TRUE(written) << written.error().message;
    const auto made = make_synthetic("synthetic:" + preset + ":" + type);
    ASSERT_TRUE(made) << made.error().message;

    auto expected = (*written)->metadata().values();
    auto found = (*made)->metadata().values();
    EXPECT_EQ(expected.erase("general.name"), 1u);
    EXPECT_EQ(found.erase("general.name"), 1u);
    EXPECT_EQ(found, expected) << preset;

    ASSERT_EQ((*made)->tensors().size(), (*written)->tensors().size()) << preset;
    for (size_t t = 0; t < (*made)->tensors().size(); ++t) {
      const TensorInfo& a = (*made)->tensors()[t];
      const TensorInfo& b = (*written)->tensors()[t];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.type, b.type) << a.name;
      EXPECT_EQ(a.shape, b.shape) << a.name;
      const double deviation = deviation_of(**written, t);
      const double tolerance = deviation * 5 / std::sqrt(static_cast<double>(a.n_elements()));
      EXPECT_NEAR(deviation_of(**made, t), deviation, tolerance) << a.name;
    }
  }
}

}  // namespace
}  // namespace kvik
