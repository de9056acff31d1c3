#include "tier/prefix_file/export_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "tensor/kv_type.h"
#include "tier/aligned_bytes.h"
#include "tier/page_record.h"
#include "tier/wanted_pages.h"

namespace kvik {
namespace {

constexpr size_t kMaxChildrenRead = 256;

// Chooses the pages to export. Pages are addressed by their number in the prefix.
class ExportPlan {
 public:
  ExportPlan(Tier& tier, const StoredPrefix& prefix)
      : tier_(tier),
        prefix_(prefix),
        layout_(prefix.layout),
        root_(root_key(prefix.identity.text(), prefix.salt)),
        file_root_(root_key(prefix.identity.text(), "")),
        pages_(whole_pages(root_, root_, prefix.tokens)),
        n_whole_(pages_.size()) {
    add_tail();
  }

  // Adds the pages that resuming at all ends needs. Errors: kIo.
  Result<void> add_all() {
    for (uint32_t group = 0; group < layout_.n_groups(); ++group) {
      if (leads_chain(group)) add_range(group, 0, pages_.size());
    }
    bool can_resume = false;
    for (const uint32_t end : prefix_.ends) can_resume = add_end(end) || can_resume;
    if (!can_resume) {
      return fail(ErrorCode::kIo,
                  "the pages of the prompt were not stored: no sequence can resume from them");
    }
    std::ranges::sort(wanted_);
    const auto same = std::ranges::unique(wanted_);
    wanted_.erase(same.begin(), same.end());
    return {};
  }

  size_t size() const { return wanted_.size(); }
  uint64_t n_tokens() const {
    return n_whole_ * kPageTokens + (has_tail() ? pages_.back().tokens.size() : 0);
  }

  // Returns the record of a wanted page as the tier has it.
  TierPage at(size_t i) const {
    const Wanted& wanted = wanted_[i];
    TierPage page = pages_of_snapshots_.empty() || wanted.snapshot == kNoSnapshot
                        ? pages_[wanted.page]
                        : pages_of_snapshots_[wanted.snapshot];
    page.group = wanted.group;
    return page;
  }

  // Returns the same record under the empty salt.
  TierPage for_file(size_t i) {
    for (size_t page = file_parents_.size(); page <= wanted_[i].page; ++page) {
      file_parents_.push_back(page == 0 ? file_root_
                                        : child_key(file_parents_.back(), pages_[page - 1].tokens));
    }
    TierPage page = at(i);
    page.root = file_root_;
    page.parent = file_parents_[wanted_[i].page];
    page.key = child_key(page.parent, page.tokens);
    page.known = SharingMark::kNoTenant;
    return page;
  }

 private:
  static constexpr uint32_t kNoSnapshot = UINT32_MAX;
  struct Wanted {
    uint32_t page = 0;  // number of whole pages before it
    uint32_t group = 0;
    uint32_t snapshot = kNoSnapshot;  // in pages_of_snapshots_
    friend auto operator<=>(const Wanted&, const Wanted&) = default;
  };

  bool has_tail() const { return pages_.size() > n_whole_; }
  PageKey parent_of(size_t page) const { return page > 0 ? pages_[page - 1].key : root_; }
  std::span<const TokenId> after(size_t page) const {
    return prefix_.tokens.subspan(page * kPageTokens);
  }

  bool leads_chain(uint32_t group) const {
    const bool has_leader = std::ranges::any_of(layout_.rules, &GroupRule::needs_all);
    return has_leader ? layout_.rules[group].needs_all() : group == 0;
  }

  void add_range(uint32_t group, size_t begin, size_t end) {
    for (size_t page = begin; page < end; ++page) {
      wanted_.push_back({.page = static_cast<uint32_t>(page), .group = group});
    }
  }

  // Adds the partly filled last page if the tier has exactly it.
  void add_tail() {
    const auto rest = after(n_whole_);
    if (rest.empty()) return;
    const auto has = [&](uint32_t group) {
      const auto children =
          tier_.children(parent_of(n_whole_), group, SharingMark::kAll, kMaxChildrenRead);
      return std::ranges::any_of(children, [&](const Tier::Child& child) {
        return std::ranges::equal(child.tokens, rest);
      });
    };
    for (uint32_t group = 0; group < layout_.n_groups(); ++group) {
      if (!has(group)) return;
    }
    if (layout_.has_open_pages() && !has(kSnapshotGroup)) return;
    const PageKey parent = parent_of(n_whole_);
    pages_.push_back({.root = root_,
                      .parent = parent,
                      .key = child_key(parent, rest),
                      .group = 0,
                      .tokens = {rest.begin(), rest.end()}});
  }

  // Adds what resuming at an end needs besides the chain. Returns false if no sequence can.
  bool add_end(uint32_t end) {
    // The last token of a prompt is always computed, and a state cannot go back by one.
    const auto n_all = static_cast<uint32_t>(prefix_.tokens.size());
    if (layout_.has_state()) return add_state(std::min(end, n_all - 1));
    const size_t n_pages = std::min<size_t>(end / kPageTokens, n_whole_);
    const bool ends_in_tail = has_tail() && end == prefix_.tokens.size();
    add_windows(n_pages * kPageTokens, ends_in_tail ? pages_.size() : n_pages);
    if (ends_in_tail && layout_.has_open_pages()) add_snapshot(n_whole_, pages_.back());
    return n_pages > 0 || ends_in_tail;
  }

  // Adds the pages of windowed groups up to page `n_pages` that tokens after the first n_tokens
  // attend to.
  void add_windows(uint64_t n_tokens, size_t n_pages) {
    for (uint32_t group = 0; group < layout_.n_groups(); ++group) {
      if (leads_chain(group)) continue;
      add_range(group, layout_.rules[group].first_page_needed(n_tokens), n_pages);
    }
  }

  // Adds the last snapshot up to `end`, and the windows there.
  bool add_state(uint32_t end) {
    for (size_t page = std::min<size_t>(end / kPageTokens, n_whole_) + 1; page-- > 0;) {
      const auto rest = after(page).first(end - page * kPageTokens);
      const auto snapshot = best_snapshot(page, rest);
      if (!snapshot) continue;
      const size_t n = snapshot->tokens.size();
      const size_t n_pages = page + 1;  // the last one has the snapshot's last tokens
      add_windows(page * kPageTokens + n, n_pages);
      add_snapshot(page, *snapshot);
      return true;
    }
    return false;
  }

  // Returns the longest snapshot in the page whose tokens `rest` has, and whose K and V are
  // exported.
  std::optional<TierPage> best_snapshot(size_t page, std::span<const TokenId> rest) const {
    if (page >= pages_.size()) return std::nullopt;
    std::optional<TierPage> best;
    for (Tier::Child& child :
         tier_.children(parent_of(page), kSnapshotGroup, SharingMark::kAll, kMaxChildrenRead)) {
      const size_t n = child.tokens.size();
      if (n > rest.size() || n > pages_[page].tokens.size()) continue;
      if (!std::ranges::equal(child.tokens, rest.first(n))) continue;
      if (best && best->tokens.size() >= n) continue;
      best = TierPage{.root = root_,
                      .parent = parent_of(page),
                      .key = child.key,
                      .group = kSnapshotGroup,
                      .tokens = std::move(child.tokens)};
    }
    return best;
  }

  void add_snapshot(size_t page, const TierPage& snapshot) {
    const auto known = std::ranges::find(pages_of_snapshots_, snapshot.key, &TierPage::key);
    const auto index = static_cast<uint32_t>(known - pages_of_snapshots_.begin());
    if (known == pages_of_snapshots_.end()) pages_of_snapshots_.push_back(snapshot);
    for (uint32_t i = 0; i < layout_.n_snapshot_pages(); ++i) {
      wanted_.push_back(
          {.page = static_cast<uint32_t>(page), .group = kSnapshotGroup + i, .snapshot = index});
    }
  }

  Tier& tier_;
  const StoredPrefix& prefix_;
  const KvLayout& layout_;
  const PageKey root_;
  const PageKey file_root_;
  std::vector<PageKey> file_parents_;  // by page, of the first ones
  std::vector<TierPage> pages_;        // whole ones, and the tail if it is stored
  const size_t n_whole_;
  std::vector<TierPage> pages_of_snapshots_;
  std::vector<Wanted> wanted_;
};

}  // namespace

Result<PrefixFileHeader> export_prefix(Tier& tier, const StoredPrefix& prefix, NewFile file,
                                       std::string key) {
  CHECK(!prefix.tokens.empty() && !prefix.ends.empty());
  ExportPlan plan(tier, prefix);
  TRY(plan.add_all());
  const PrefixFileHeader header{.identity = prefix.identity,
                                .page_bytes = prefix.layout.page_bytes,
                                .n_groups = prefix.layout.n_groups(),
                                .n_snapshot_pages = prefix.layout.n_snapshot_pages(),
                                .n_tokens = plan.n_tokens(),
                                .n_records = plan.size(),
                                .is_signed = !key.empty()};
  TRY_ASSIGN(PrefixFileWriter writer,
             PrefixFileWriter::begin(std::move(file), header, std::move(key)));
  CHECK(tier.head_bytes() >= kRecordHeadBytes);
  const AlignedBytes slot(tier.slot_bytes(header.page_bytes), tier.alignment());
  const auto record =
      slot.span().subspan(tier.head_bytes() - kRecordHeadBytes, header.record_bytes());
  for (size_t i = 0; i < plan.size(); ++i) {
    TierPage page = plan.at(i);
    const Tier::Get got = tier.get(page, SharingMark::kAll, slot.span(), header.page_bytes);
    if (got != Tier::Get::kFound) {
      return fail(ErrorCode::kIo,
                  fmt::format("page {} of {} of the prompt was not stored, or cannot "
                              "be read: is the disk full?",
                              i + 1, plan.size()));
    }
    write_record_head(plan.for_file(i), header.page_bytes, record);
    TRY(writer.add(record));
  }
  TRY(writer.commit());
  return header;
}

}  // namespace kvik
