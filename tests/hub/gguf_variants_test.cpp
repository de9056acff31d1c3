#include "hub/gguf_variants.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/hf_repository.h"
#include "hub/stores/ollama_manifest.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<RepositoryFile> files_of(std::initializer_list<const char*> paths) {
  std::vector<RepositoryFile> files;
  for (const char* path : paths) files.push_back({.path = path, .n_bytes = 10});
  return files;
}

std::vector<std::string> quants_of(const std::vector<GgufVariant>& variants) {
  std::vector<std::string> quants;
  for (const GgufVariant& variant : variants) quants.push_back(variant.quant);
  return quants;
}

TEST(GgufVariants, quantizations_are_read_from_names) {
  for (const auto& [path, quant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "Q4_K_M"},
           {"qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"},
           {"tinyllama-1.1b-chat-v1.0.Q5_0.gguf", "Q5_0"},
           {"Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
           {"gemma-3-4b-it-IQ2_XXS.gguf", "IQ2_XXS"},
           {"gpt-oss-20b-mxfp4.gguf", "MXFP4"},
           {"gpt-oss-120b-MXFP4_MOE-00001-of-00002.gguf", "MXFP4_MOE"},
           {"BF16/Model-BF16-00001-of-00003.gguf", "BF16"},
           {"Q8_0/model-00001-of-00002.gguf", "Q8_0"},
           {"model_Q6_K.gguf", "Q6_K"},
           {"model-f16.gguf", "F16"},
           {"bitnet-TQ1_0.gguf", "TQ1_0"},
           {"Qwen3-4B.gguf", ""},
           {"model.gguf", ""}}) {
    EXPECT_EQ(quant_in_name(path), quant) << path;
  }
}

TEST(GgufVariants, split_models_with_missing_pieces_are_left_out) {
  const auto variants = find_gguf_variants(
      files_of({"a-Q8_0-00002-of-00002.gguf", "a-Q8_0-00001-of-00002.gguf",
                "b-Q4_0-00001-of-00002.gguf", "c-Q2_K-00003-of-00002.gguf", "c-F16.gguf",
                "mmproj-F16.gguf", "MTP/mtp-model-Q4_K_M.gguf", "x.imatrix.gguf", "config.json"}));
  EXPECT_THAT(quants_of(variants), ElementsAre("F16", "Q8_0"));
  EXPECT_EQ(variants[1].pieces[0].path, "a-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(variants[1].n_bytes(), 20);
}

TEST(GgufVariants, the_usual_quantization_is_chosen) {
  const auto choose = [](std::initializer_list<const char*> paths, const char* quant) {
    const auto chosen = choose_variant(find_gguf_variants(files_of(paths)), quant, "a/b");
    return chosen ? chosen->pieces.front().path : chosen.error().message;
  };
  EXPECT_EQ(choose({"x-Q8_0.gguf", "x-Q4_K_M.gguf", "x-Q2_K.gguf"}, ""), "x-Q4_K_M.gguf");
  EXPECT_EQ(choose({"x-Q8_0.gguf", "x-Q6_K.gguf"}, ""), "x-Q6_K.gguf");
  EXPECT_EQ(choose({"x-Q2_K.gguf", "x-IQ1_S.gguf"}, ""), "x-IQ1_S.gguf");
  EXPECT_EQ(choose({"x-UD-Q4_K_XL.gguf"}, "q4_k_xl"), "x-UD-Q4_K_XL.gguf");
  EXPECT_EQ(choose({"x-Q8_0.gguf"}, "q8_0"), "x-Q8_0.gguf");
  EXPECT_THAT(choose({"x-Q8_0.gguf"}, "Q4_0"), HasSubstr("a/b has no Q4_0; it has Q8_0"));
  EXPECT_THAT(choose({"x-Q8_0.gguf", "y-Q8_0.gguf"}, "Q8_0"),
              HasSubstr("2 models of this quantization"));
  EXPECT_THAT(choose({}, ""), HasSubstr("a/b has no GGUF file"));
}

TEST(GgufVariants, a_folder_needs_config_and_tensors) {
  EXPECT_THAT(find_folder_files(files_of({"config.json", "tokenizer.json"})), IsEmpty());
  EXPECT_THAT(find_folder_files(files_of({"model.safetensors"})), IsEmpty());
  const auto files = find_folder_files(
      files_of({"config.json", "consolidated.safetensors", "model-00001-of-00001.safetensors",
                "onnx/model.onnx", "README.md", "tokenizer.json", "original/model.safetensors"}));
  std::vector<std::string> paths;
  for (const RepositoryFile& file : files) paths.push_back(file.path);
  EXPECT_THAT(paths,
              ElementsAre("model-00001-of-00001.safetensors", "tokenizer.json", "config.json"));
}

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

TEST(HfRepository, files_with_unsafe_names_or_hashes_are_left_out) {
  const auto list = [](const std::string& siblings) {
    return parse_hf_repository(fmt::format(R"({{"sha":"{}","siblings":[{}]}})", kCommit, siblings));
  };
  const std::string hash(64, 'a');
  const auto good = list(
      fmt::format(R"({{"rfilename":"a.gguf","size":5,"lfs":{{"sha256":"{}","size":6}}}})", hash));
  ASSERT_TRUE(good && good->files.size() == 1);
  EXPECT_EQ(good->files[0].n_bytes, 6);
  EXPECT_EQ(good->files[0].sha256, hash);
  for (const std::string& bad :
       {fmt::format(R"({{"rfilename":"../a.gguf","size":5,"lfs":{{"sha256":"{}"}}}})", hash),
        std::string(R"({"rfilename":"a.gguf","size":5,"lfs":{"sha256":"../x"}})"),
        std::string(R"({"rfilename":"a.gguf","size":5,"blobId":"x"})"),
        fmt::format(R"({{"rfilename":"a.gguf","size":-5,"lfs":{{"sha256":"{}"}}}})", hash),
        std::string("5"), std::string("null")}) {
    const auto repository = list(bad);
    ASSERT_TRUE(repository) << bad;
    EXPECT_THAT(repository->files, IsEmpty()) << bad;
  }
  for (const char* text : {"", "[]", "{}", R"({"sha":"main","siblings":[]})", R"({"sha":5})"})
    EXPECT_FALSE(parse_hf_repository(text)) << text;
}

TEST(OllamaManifest, has_one_layer_of_weights_and_a_config) {
  const std::string digest = "sha256:" + std::string(64, 'b');
  const auto layer = [&](const char* type) {
    return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":3}})", type, digest);
  };
  const std::string weights = layer("application/vnd.ollama.image.model"),
                    other = layer("application/vnd.ollama.image.license");
  const auto parse = [](const std::string& layers, const std::string& config) {
    return parse_ollama_manifest(fmt::format(R"({{"layers":[{}],"config":{}}})", layers, config));
  };
  const auto manifest = parse(other + "," + weights, other);
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->model().media_type, OllamaManifest::kModelLayer);
  EXPECT_EQ(manifest->layers.size(), 3);
  EXPECT_EQ(parse(other, other).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(parse(weights + "," + weights, other).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(parse(weights, "5").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(parse("5", other).error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(parse_ollama_manifest("nonsense"));
}

}  // namespace
}  // namespace kvik
