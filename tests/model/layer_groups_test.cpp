#include "model/layer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "format/synthetic/synthetic.h"

namespace kvik {
namespace {

using testing::ElementsAre;

LayerGroups groups_of(const std::string& preset) {
  const auto source = make_synthetic("synthetic:" + preset);
  EXPECT_TRUE(source.has_value());
  const auto config = read_config((*source)->metadata());
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return group_layers(*config);
}

TEST(LayerGroups, layers_that_are_alike_share_one_page) {
  const LayerGroups groups = groups_of("llama-3.1-8b");
  EXPECT_THAT(groups.n_layers, ElementsAre(32u));
  EXPECT_THAT(groups.windows, ElementsAre(0u));
}

// 22 layers with a window and 4 without.
TEST(LayerGroups, global_layers_fill_their_pages) {
  const LayerGroups groups = groups_of("gemma3-1b");
  EXPECT_EQ(groups.n_groups(), 7u);
  for (const uint32_t n : groups.n_layers) EXPECT_EQ(n, 4u);
}

// The K and V of a windowed layer are larger than those of a global layer: a page holds 5 global
// layers or 2 windowed ones.
TEST(LayerGroups, a_page_holds_fewer_of_the_wider_layers) {
  const LayerGroups groups = groups_of("gemma4-26b-a4b");
  uint32_t n_global = 0;
  for (uint32_t g = 0; g < groups.n_groups(); ++g) {
    n_global += groups.windows[g] == 0;
    EXPECT_EQ(groups.n_layers[g], groups.windows[g] == 0 ? 5u : 2u);
    EXPECT_EQ(groups.heads[g].head_dim, groups.windows[g] == 0 ? 512u : 256u);
  }
  EXPECT_EQ(n_global, 1u);
  EXPECT_EQ(groups.n_groups(), 14u);
}

TEST(LayerGroups, a_layer_with_shared_kv_has_the_place_of_its_source) {
  const LayerGroups groups = groups_of("gemma4-e2b");
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> n_of;
  for (const auto& [group, layer] : groups.places) {
    EXPECT_LT(layer, groups.n_layers[group]);
    ++n_of[{group, layer}];
  }
  EXPECT_EQ(n_of.size(), 15u);  // of 35 layers
  const auto place = [&](uint32_t i) {
    return std::pair(groups.places[i].group, groups.places[i].layer);
  };
  EXPECT_EQ(place(15), place(13));  // with a window
  EXPECT_EQ(place(34), place(14));  // without
  EXPECT_EQ(n_of[place(13)], 17u);
  EXPECT_EQ(n_of[place(14)], 5u);
}

// 21 layers with entries of 4 tokens, of which a page has 8, and 20 with entries of 128.
TEST(LayerGroups, entries_of_several_layers_share_the_places_of_a_page) {
  const LayerGroups groups = groups_of("deepseek-v4-flash");
  const uint32_t of_entries = groups.entry_places[2].place.group;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> n_of;
  for (uint32_t layer = 0; layer < 43; ++layer) {
    EXPECT_EQ(groups.windows[groups.places[layer].group], 128u);
    if (layer < 2) continue;
    const auto& [place, first_slot] = groups.entry_places[layer];
    EXPECT_EQ(place.group, of_entries);
    EXPECT_LT(place.layer, groups.n_layers[of_entries]);
    for (uint32_t slot = 0; slot < (layer % 2 == 0 ? 8u : 1u); ++slot) {
      EXPECT_EQ(++n_of[std::pair(place.layer, first_slot + slot)], 1u) << layer;
      EXPECT_LT(first_slot + slot, 32u);
    }
  }
  EXPECT_EQ(groups.windows[of_entries], 0u);
  EXPECT_EQ(n_of.size(), 21u * 8 + 20);
}

}  // namespace
}  // namespace kvik
