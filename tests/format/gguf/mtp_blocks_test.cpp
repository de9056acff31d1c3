#include "format/gguf/mtp_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;

// Returns the names after the blocks of the file are joined.
std::vector<std::string> joined(const std::vector<std::string>& names) {
  GgufWriter file;
  for (const std::string& name : names) file.tensor(name, {64}, std::vector<float>(64, 1.0f));
  const auto bytes = file.bytes();
  const auto source = open_gguf_bytes("m.gguf", bytes);
  EXPECT_TRUE(source);
  join_mtp_blocks(**source);
  std::vector<std::string> found;
  for (const TensorInfo& tensor : (*source)->tensors()) found.push_back(tensor.name);
  return found;
}

TEST(MtpBlocks, two_blocks_become_one_layer) {
  EXPECT_THAT(
      joined({"blk.1.attn_norm.weight", "blk.2.attn_norm.weight", "blk.2.attn_q.weight",
              "blk.2.nextn.eh_proj.weight", "blk.3.attn_norm.weight", "blk.3.ffn_up_exps.weight",
              "blk.3.nextn.shared_head_norm.weight", "blk.30.attn_norm.weight"}),
      ElementsAre("blk.1.attn_norm.weight", "blk.2.attn_norm.weight", "blk.2.attn_q.weight",
                  "blk.2.nextn.eh_proj.weight", "blk.2.ffn_norm.weight", "blk.2.ffn_up_exps.weight",
                  "blk.2.nextn.shared_head_norm.weight", "blk.30.attn_norm.weight"));
}

TEST(MtpBlocks, other_layers_keep_their_names) {
  const std::vector<std::vector<std::string>> files = {
      // One MTP layer, several, and one whose norm is the model's beside a whole one.
      {"blk.2.nextn.eh_proj.weight", "blk.2.nextn.shared_head_norm.weight"},
      {"blk.2.nextn.eh_proj.weight", "blk.2.nextn.shared_head_norm.weight",
       "blk.3.nextn.eh_proj.weight", "blk.3.nextn.shared_head_norm.weight"},
      {"blk.2.nextn.eh_proj.weight", "blk.3.nextn.eh_proj.weight",
       "blk.3.nextn.shared_head_norm.weight"},
      // Both blocks have a feed-forward block.
      {"blk.2.nextn.eh_proj.weight", "blk.2.ffn_norm.weight", "blk.3.attn_norm.weight",
       "blk.3.nextn.shared_head_norm.weight"},
      // The greatest number that a name can have.
      {"blk.4294967295.nextn.eh_proj.weight", "blk.0.nextn.shared_head_norm.weight"},
  };
  for (const auto& names : files) EXPECT_EQ(joined(names), names);
}

}  // namespace
}  // namespace kvik
