// Prints the logits of a model's MTP head; e2e/mtp_head_test.py compares them with the oracle.
//   mtp_head_logits MODEL IDS CHUNK [HEAD]
// IDS: ids separated by commas; CHUNK: tokens per step; HEAD: an EAGLE-3 head
// Prints one line of logits per step of CHUNK tokens. The MTP head gets the token that follows the
// step and predicts the one after it. Pages are f32. With CHUNK 0 there is one step of one token;
// the head then runs for all other tokens, each time from its own previous row.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "engine/work_limits.h"
#include "host/draft_head.h"
#include "host/load_model.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"
#include "model/recurrent/state_layout.h"

namespace kvik {
namespace {

std::vector<TokenId> ids_in(const std::string& text) {
  std::vector<TokenId> ids;
  std::istringstream in(text);
  for (std::string id; std::getline(in, id, ',');)
    ids.push_back(static_cast<TokenId>(std::stoul(id)));
  return ids;
}

void print(std::span<const float> logits) {
  for (const float logit : logits) std::printf("%.9g ", static_cast<double>(logit));
  std::printf("\n");
}

// One sequence with its pages and its recurrent state.
class MtpHeadDrafts {
 public:
  MtpHeadDrafts(const Model& model, Backend& backend)
      : has_assistant_(model.config().assistant.has_value()),
        decoder_(model, backend, KvType::kF32, kMaxRows),
        kv_(backend.memory(), 64 * decoder_.groups().n_groups() * decoder_.page_bytes(),
            KvLayout(decoder_.page_bytes(), std::vector<GroupRule>(decoder_.groups().n_groups())),
            clock_),
        state_(backend.memory().allocate(state_layout(model.config()).n_bytes())),
        table_(kv_.make_table()) {}

  void print_all(const std::vector<TokenId>& ids, uint32_t chunk) {
    for (uint32_t n = 0; n + 1 < ids.size();) {
      const uint32_t n_new =
          std::min(std::max(chunk, 1u), static_cast<uint32_t>(ids.size()) - 1 - n);
      const BatchSequence step{.tokens = std::span(ids).subspan(n, n_new),
                               .first_position = n,
                               .kv = view(ids.size()),
                               .want = has_assistant_ ? OutputRows::kLast : OutputRows::kNone,
                               .earlier = std::span(ids).first(n)};
      decoder_.forward(std::span(&step, 1));
      n += n_new;
      run(ids[n], n, 0);
      for (uint32_t drafted = 1; chunk == 0 && n + 1 < ids.size(); ++n, ++drafted) {
        run(ids[n + 1], n + 1, drafted);
      }
    }
  }

 private:
  static constexpr uint32_t kMaxRows = 160;

  void run(TokenId token, uint32_t position, uint32_t n_drafted) {
    const MtpHeadRow row{.token = token,
                         .position = position,
                         .n_drafted = n_drafted,
                         .kv = view(position + 1),
                         .previous_row = n_drafted > 0 ? std::optional(0u) : std::nullopt};
    decoder_.run_mtp_head(std::span(&row, 1));
    print(decoder_.mtp_head_logits(0));
  }

  KvView view(uint64_t n_tokens) {
    CHECK(kv_.grow(table_, n_tokens));
    addresses_.clear();
    for (uint32_t g = 0; g < kv_.layout().n_groups(); ++g)
      addresses_.push_back(table_.addresses(g));
    return {.groups = addresses_, .state = state_.data()};
  }

  const bool has_assistant_;
  SteadyClock clock_;
  Decoder decoder_;
  KvCache kv_;
  Buffer state_;
  PageTable table_;
  std::vector<std::span<std::byte* const>> addresses_;
};

int run(const std::string& path, const std::string& ids, const std::string& chunk,
        const std::string& head) {
  auto backend = make_cpu_backend({.n_threads = 1, .isa = {}});
  auto source = open_model(path);
  CHECK(backend && source);
  const auto draft =
      add_draft_head({.draft = head, .model = path, .speculates = false}, **backend, *source);
  if (!draft) {
    std::cerr << draft.error().message << "\n";
    return EXIT_FAILURE;
  }
  auto model = Model::load(**source, **backend, nullptr);
  CHECK(model);
  MtpHeadDrafts(**model, **backend)
      .print_all(ids_in(ids), static_cast<uint32_t>(std::stoul(chunk)));
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  if (argc == 4 || argc == 5) return kvik::run(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : "");
  std::cerr << "usage: mtp_head_logits MODEL IDS CHUNK [HEAD]\n";
  return 2;
}
