#include "hub/stores/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hub/hf_repository.h"
#include "hub/resolve_model.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  // Writes a file of Hugging Face's cache as huggingface_hub does.
  void write_hf(const std::string& path, const std::string& hash,
                const std::string& commit = kOld) {
    write("hub/models--acme--tiny/blobs/" + hash, "text");
    const fs::path link = folder_ + "/hub/models--acme--tiny/snapshots/" + commit + "/" + path;
    fs::create_directories(link.parent_path());
    fs::create_symlink("../../blobs/" + hash, link);
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const StoredModel& model : store_.list()) names.push_back(model.name);
    return names;
  }

  static constexpr const char* kOld = "0000000000000000000000000000000000000000";
  static constexpr const char* kNew = "1111111111111111111111111111111111111111";
  const std::string folder_ =
      ::testing::TempDir() + "/model_store_test-" + std::to_string(getpid());
  const std::string hash_a_ = std::string(64, 'a'), hash_b_ = std::string(64, 'b');
  ModelStore store_{HubOptions{.hf_cache = folder_ + "/hub",
                               .ollama_models = folder_ + "/ollama",
                               .kvik_models = folder_ + "/kvik"}};
};

TEST_F(ModelStoreTest, files_of_another_program_are_found) {
  write_hf("tiny-Q4_0.gguf", hash_a_);
  write_hf("tiny-Q8_0.gguf", hash_b_, kNew);
  write("hub/models--acme--tiny/refs/main", kNew);
  EXPECT_THAT(names(), ElementsAre("acme/tiny:Q4_0", "acme/tiny:Q8_0"));
  EXPECT_EQ(store_.find("acme/tiny:q8_0")->digest, hash_b_);
  EXPECT_EQ(store_.find("acme/tiny")->name, "acme/tiny:Q4_0");
  EXPECT_FALSE(store_.find("acme/tiny:Q2_K"));
}

TEST_F(ModelStoreTest, links_without_contents_are_not_listed) {
  write_hf("tiny-Q4_0.gguf", hash_a_);
  fs::remove(folder_ + "/hub/models--acme--tiny/blobs/" + hash_a_);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ModelStoreTest, a_folder_is_listed_when_all_its_files_are_there) {
  write_hf("config.json", hash_a_);
  EXPECT_THAT(names(), IsEmpty());
  write(
      "hub/models--acme--tiny/snapshots/" + std::string(kOld) + "/model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  write_hf("model-00001-of-00002.safetensors", hash_a_);
  EXPECT_THAT(names(), IsEmpty());
  write_hf("model-00002-of-00002.safetensors", hash_b_);
  EXPECT_THAT(names(), ElementsAre("acme/tiny"));
}

TEST_F(ModelStoreTest, a_model_is_removed_from_all_snapshots_with_its_contents_alone) {
  write_hf("tiny-Q4_0.gguf", hash_a_);
  write_hf("tiny-Q4_0.gguf", hash_a_, kNew);
  write_hf("tiny-Q8_0.gguf", hash_b_, kNew);
  write_hf("config.json", hash_b_, kNew);
  ASSERT_TRUE(store_.remove("acme/tiny:Q4_0"));
  EXPECT_THAT(names(), ElementsAre("acme/tiny:Q8_0"));
  EXPECT_FALSE(fs::exists(folder_ + "/hub/models--acme--tiny/blobs/" + hash_a_));
  ASSERT_TRUE(store_.remove("acme/tiny:Q8_0"));
  EXPECT_TRUE(fs::exists(folder_ + "/hub/models--acme--tiny/blobs/" + hash_b_));  // config.json's
  EXPECT_EQ(store_.remove("acme/tiny:Q8_0").error().code, ErrorCode::kNotFound);
}

TEST_F(ModelStoreTest, unfinished_downloads_outlive_other_models) {
  const std::string blobs = "hub/models--acme--tiny/blobs/";
  write_hf("tiny-Q4_0.gguf", hash_a_);
  write(blobs + hash_b_ + ".kvik-part", "half");
  write(blobs + std::string(64, 'c'), "the first piece of a split model that is being downloaded");
  ASSERT_TRUE(store_.remove("acme/tiny:Q4_0"));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ + "/" + blobs + hash_a_));
  EXPECT_TRUE(fs::exists(folder_ + "/" + blobs + hash_b_ + ".kvik-part"));
  EXPECT_TRUE(fs::exists(folder_ + "/" + blobs + std::string(64, 'c')));
}

TEST_F(ModelStoreTest, a_file_names_no_model_of_another_repository) {
  write("hub/models--acme--tiny-two/blobs/" + hash_a_, "text");
  const std::string snapshot = folder_ + "/hub/models--acme--tiny-two/snapshots/" + kOld;
  fs::create_directories(snapshot + "/sub");
  fs::create_symlink("../../blobs/" + hash_a_, snapshot + "/x-Q4_0.gguf");
  fs::create_symlink("../../../blobs/" + hash_a_, snapshot + "/sub/y-Q8_0.gguf");
  EXPECT_EQ(store_.find("acme/tiny-two/x-Q4_0.gguf")->name, "acme/tiny-two:Q4_0");
  EXPECT_EQ(store_.find("acme/tiny-two/sub/y-Q8_0.gguf")->name, "acme/tiny-two:Q8_0");
  EXPECT_FALSE(store_.find("acme/tiny-two/y-Q8_0.gguf"));
  EXPECT_EQ(store_.remove("acme/tiny/x-Q4_0.gguf").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(names(), ElementsAre("acme/tiny-two:Q4_0", "acme/tiny-two:Q8_0"));
}

TEST_F(ModelStoreTest, blobs_of_ollama_stay_if_a_manifest_cannot_be_listed) {
  const auto write_model = [&](const std::string& path) {
    write(path, R"({"config":{"mediaType":"c","digest":"sha256:)" + hash_b_ +
                    R"(","size":4},"layers":[{"mediaType":"application/vnd.ollama.image.model",)" +
                    R"("digest":"sha256:)" + hash_a_ + R"(","size":4}]})");
  };
  write("ollama/blobs/sha256-" + hash_a_, "text");
  write("ollama/blobs/sha256-" + hash_b_, "text");
  write_model("ollama/manifests/registry.ollama.ai/library/tiny/latest");
  write_model("ollama/manifests/registry.ollama.ai/library/ tiny/latest");  // an unusual name
  EXPECT_THAT(names(), ElementsAre("tiny:latest"));
  ASSERT_TRUE(store_.remove("tiny"));
  EXPECT_TRUE(fs::exists(folder_ + "/ollama/blobs/sha256-" + hash_a_));
}

TEST_F(ModelStoreTest, the_version_changes_with_the_models) {
  write_hf("tiny-Q4_0.gguf", hash_a_);
  const std::string first = store_.version();
  EXPECT_EQ(store_.version(), first);
  ASSERT_TRUE(store_.copy("acme/tiny", "tiny"));
  const std::string second = store_.version();
  EXPECT_NE(second, first);
  std::vector<std::string> paths;
  for (const StoredPath& model : store_.paths()) {
    EXPECT_EQ(model.path, store_.find(model.name)->path);
    paths.push_back(model.name);
  }
  EXPECT_THAT(paths, ElementsAre("acme/tiny:Q4_0", "tiny"));
  ASSERT_TRUE(store_.remove("tiny"));
  const std::string third = store_.version();
  EXPECT_NE(third, second);
  ASSERT_TRUE(store_.remove("acme/tiny"));
  EXPECT_NE(store_.version(), third);
  EXPECT_THAT(store_.paths(), IsEmpty());
}

TEST(RemoteSizes, absurd_sizes_are_refused) {
  const auto repository = [](const std::string& size) {
    return parse_hf_repository(
        R"({"sha":"0000000000000000000000000000000000000000","siblings":[{"rfilename":"a.gguf",)"
        R"("blobId":"0000000000000000000000000000000000000000","size":)" +
        size + "}]}");
  };
  EXPECT_EQ(repository("17592186044416")->files.size(), 1);
  for (const char* const size : {"17592186044417", "9223372036854775807", "1e300", "-1"})
    EXPECT_THAT(repository(size)->files, IsEmpty()) << size;
  const std::string hash(64, 'a');
  const auto manifest = [&](const std::string& size) {
    return parse_ollama_manifest(
        R"({"config":{"mediaType":"c","digest":"sha256:)" + hash + R"(","size":4},"layers":[)" +
        R"({"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" + hash +
        R"(","size":)" + size + "}]}");
  };
  EXPECT_TRUE(manifest("17592186044416"));
  EXPECT_EQ(manifest("9223372036854775807").error().code, ErrorCode::kCorrupt);
}

TEST_F(ModelStoreTest, short_names_end_with_their_model) {
  write_hf("tiny-Q4_0.gguf", hash_a_);
  ASSERT_TRUE(store_.copy("acme/tiny:Q4_0", "tiny"));
  EXPECT_EQ(store_.find("tiny:latest")->path, store_.find("acme/tiny:Q4_0")->path);
  EXPECT_EQ(store_.copy("acme/tiny:Q4_0", "../x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store_.copy("none", "x").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(store_.remove("acme/tiny:Q4_0"));
  EXPECT_FALSE(store_.find("tiny"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ModelStoreTest, paths_and_embedded_models_stay_as_they_are) {
  write("model.gguf", "x");
  for (const std::string& name :
       {folder_ + "/model.gguf", std::string("demo"), std::string("synthetic:any")}) {
    const auto resolved = resolve_model(store_, name);
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->path, name);
    EXPECT_EQ(resolved->name, "");
  }
}

TEST_F(ModelStoreTest, an_unknown_model_says_what_to_type) {
  EXPECT_THAT(resolve_model(store_, "acme/tiny:Q4_0").error().message,
              HasSubstr("'acme/tiny:Q4_0' is no file or folder, and no stored model (kvik list); "
                        "kvik pull acme/tiny:Q4_0 downloads it"));
  EXPECT_THAT(unknown_model("llama-3.2-1b").message,
              HasSubstr("did you mean synthetic:llama-3.2-1b"));
  EXPECT_THAT(unknown_model("a\x1b[31m/b").message,
              HasSubstr("kvik pull ORG/REPO:QUANT downloads a model"));
}

}  // namespace
}  // namespace kvik
