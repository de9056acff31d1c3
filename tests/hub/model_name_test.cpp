#include "hub/model_name.h"

#include <gtest/gtest.h>

#include "hub/stores/short_names.h"

namespace kvik {
namespace {

std::string text_of(std::string_view name) {
  const auto parsed = parse_model_name(name, {});
  return parsed ? parsed->text() : "refused";
}

TEST(ModelName, forms_of_hugging_face_mean_the_same) {
  for (const char* name : {"acme/Tiny-GGUF:Q4_K_M", "hf.co/acme/Tiny-GGUF:Q4_K_M",
                           "huggingface.co/acme/Tiny-GGUF:Q4_K_M"}) {
    EXPECT_EQ(text_of(name), "acme/Tiny-GGUF:Q4_K_M");
  }
  EXPECT_EQ(text_of("https://huggingface.co/acme/tiny"), "acme/tiny");
  for (const char* name : {"hf.co/acme/tiny/a/b.gguf",
                           "https://huggingface.co/acme/tiny/resolve/main/a/b.gguf?download=true",
                           "https://hf.co/acme/tiny/blob/main/a/b.gguf"}) {
    EXPECT_EQ(text_of(name), "acme/tiny/a/b.gguf");
  }
}

TEST(ModelName, names_without_a_slash_are_of_ollama) {
  EXPECT_EQ(text_of("qwen2.5:0.5b"), "qwen2.5:0.5b");
  EXPECT_EQ(text_of("qwen"), "qwen:latest");
  EXPECT_EQ(text_of("ollama://me/qwen"), "me/qwen:latest");
  EXPECT_EQ(parse_model_name("qwen", {})->pull_argument(), "ollama://qwen:latest");
}

TEST(ModelName, an_origin_is_known) {
  for (const char* name :
       {"hf.co/a/b", "ollama://b", "https://x.org/b.gguf", "https://huggingface.co/a/b"}) {
    EXPECT_TRUE(parse_model_name(name, {})->has_origin) << name;
  }
  for (const char* name : {"a/b", "b", "b:c"})
    EXPECT_FALSE(parse_model_name(name, {})->has_origin) << name;
}

TEST(ModelName, a_url_at_the_endpoint_is_of_hugging_face) {
  const HubOptions options{.hf_endpoint = "http://127.0.0.1:80"};
  EXPECT_EQ(parse_model_name("http://127.0.0.1:80/a/b/resolve/main/c.gguf", options)->text(),
            "a/b/c.gguf");
  EXPECT_EQ(parse_model_name("http://127.0.0.1:81/a/c.gguf?x=1", options)->text(),
            "http://127.0.0.1:81/a/c.gguf");
}

TEST(ModelName, names_that_could_leave_a_folder_are_refused) {
  for (const std::string_view name : {"",
                                      "/",
                                      "a/",
                                      "/b",
                                      "../b",
                                      "a/..",
                                      "a/b:",
                                      "a/b:../c",
                                      "a/b/../c.gguf",
                                      "a/b//c.gguf",
                                      ".a/b",
                                      "-a/b",
                                      "a--b/c",
                                      "ollama://",
                                      "ollama://a:b/c",
                                      "ollama://..",
                                      "https://h/..",
                                      "https://h/a/../b.gguf",
                                      "https://u@h/a.gguf",
                                      "https:///a.gguf",
                                      "https://h/a.bin",
                                      "a\\b/c",
                                      "a b",
                                      "ü/b"}) {
    EXPECT_EQ(text_of(name), "refused") << name;
  }
  EXPECT_EQ(text_of(std::string("a/b\0/c.gguf", 11)), "refused");
}

TEST(ModelName, safe_paths) {
  for (const char* path : {"a", "a/b.gguf", "ü/x y.gguf", "...a"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a\nb", "\xff", " a"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
  EXPECT_FALSE(is_safe_path(std::string(201, 'a')));
}

TEST(ShortNames, latest_is_the_same_name) {
  EXPECT_EQ(without_latest("a:latest"), "a");
  EXPECT_EQ(without_latest("a:b"), "a:b");
}

}  // namespace
}  // namespace kvik
