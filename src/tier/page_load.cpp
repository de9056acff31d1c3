#include "tier/page_load.h"

#include <algorithm>

#include "tier/tier_link.h"
#include "tier/wanted_pages.h"

namespace kvik {
namespace {

// Loading while computing saves little if one of the two takes less than a fraction of the other:
// 1 / (1 + n) of the time for n times. A fetch before computing costs no part of a step.
constexpr double kFetchIfFaster = 4;   // times as fast as computing
constexpr double kNoneIfSlower = 16;   // times as slow as computing
constexpr uint32_t kMinPages = 16;     // pages of a prompt worth it
constexpr double kUnknownPageMs = 20;  // time to compute a page, as in time_limit_of()

}  // namespace

PageLoad::~PageLoad() { link_.forget(*this); }

uint32_t PageLoad::next_loaded(uint32_t page) const {
  while (page < n_pages() && !loaded_[page]) ++page;
  return page;
}

uint32_t PageLoad::n_with_loaded(uint32_t n_cached) const {
  if (n_cached % kPageTokens != 0) return n_cached;
  uint32_t page = n_cached / kPageTokens;
  while (page < n_pages() && loaded_[page]) ++page;
  return page * kPageTokens;
}

// The table's pages become sealed in their order.
std::optional<size_t> PageLoad::level_of(PageId page) const {
  const uint32_t number = table_.n_sealed();
  if (number >= n_pages() || !table_.holds(0, number)) return std::nullopt;
  return table_.page(0, number) == page ? loaded_[number] : std::nullopt;
}

// If the tier reads a page in r and a page is computed in c, they meet after c / r pages are read
// for each one that is computed.
uint32_t PageLoad::n_to_compute(uint32_t n_cached, uint32_t n_new, double compute_ms) const {
  const auto front = static_cast<uint32_t>(pages_for(n_cached));
  const uint32_t loaded = next_loaded(front);
  if (loaded >= n_pages() && is_done_) return n_new;
  uint32_t end = loaded;
  if (!is_done_ && compute_ms > 0) {
    const double computed_page_ms = compute_ms * kPageTokens / n_new;
    const TierLink::LoadRate rate = link_.rate_of(*this);
    const double n_missing = loaded - std::min(loaded, front);
    const double n_share = n_missing * rate.page_ms / (rate.page_ms + computed_page_ms);
    const double n_room = rate.n_slots * rate.page_ms / computed_page_ms;
    const auto n = static_cast<uint32_t>(std::min({n_share, n_room, n_missing}));
    end = std::min(loaded, front + std::max(n, 1u));
  }
  if (end >= n_pages()) return n_new;
  return std::min(n_new, end * kPageTokens - n_cached);
}

void PageLoad::count_hits(uint32_t begin, uint32_t end) const {
  link_.count_hits(*this, begin, end);
}

bool PageLoad::is_over(uint32_t n_cached) const {
  return is_done_ && next_loaded(n_cached / kPageTokens) >= n_pages();
}

// --- TierLink: loads beside fetches ---

bool TierLink::can_load() const {
  const KvLayout& layout = kv_.layout();
  return layout.n_groups() == 1 && layout.rules[0].needs_all() && !layout.has_state();
}

TierLink::Way TierLink::way_of(const Level& level, const Rest& rest) const {
  const auto page_ms = level.queue->page_read_ms();
  if (!page_ms) return Way::kFetch;
  const auto n_pages = static_cast<double>(pages_at_once(kv_.layout(), rest.n_tokens));
  const double read_ms = *page_ms * n_pages;
  if (!can_load() || rest.n_tokens < kMinPages * kPageTokens) {
    return !rest.compute_ms || read_ms < *rest.compute_ms ? Way::kFetch : Way::kNone;
  }
  const double compute_ms = rest.compute_ms.value_or(kUnknownPageMs * n_pages);
  if (read_ms * kFetchIfFaster <= compute_ms) return Way::kFetch;
  return read_ms <= kNoneIfSlower * compute_ms ? Way::kLoad : Way::kNone;
}

// Ends fetches from tiers whose speed was not known and that turn out to be better used by a load.
// The others get the time that they need.
void TierLink::end_slow_fetches() {
  for (PageFetch* fetch : fetches_) {
    TierQueue& queue = *levels_[fetch->level_].queue;
    if (fetch->is_done_ || !fetch->is_trial_ || !queue.page_read_ms()) continue;
    fetch->is_trial_ = false;
    Rest rest{.n_tokens = static_cast<uint32_t>(fetch->query_.tokens.size()) - fetch->n_before_,
              .compute_ms = {}};
    if (fetch->token_compute_ms_ > 0) rest.compute_ms = fetch->token_compute_ms_ * rest.n_tokens;
    const Way way = way_of(levels_[fetch->level_], rest);
    if (way == Way::kFetch) fetch->time_limit_ = time_limit_of(*fetch);
    if (way != Way::kLoad) continue;
    queue.cancel(fetch->id_);
    end(*fetch);
  }
}

bool TierLink::may_load(const Rest& rest) const {
  return std::ranges::any_of(levels_,
                             [&](const Level& level) { return way_of(level, rest) == Way::kLoad; });
}

std::unique_ptr<PageLoad> TierLink::load(const PrefixQuery& query, PageTable& table,
                                         const Rest& rest) {
  // When the page in which the prompt ends is sealed, its open page is kept, which a load lacks.
  const uint64_t n_tokens =
      std::min<uint64_t>(query.tokens.size(), std::max<uint64_t>(table.owner.n_prompt, 1) - 1);
  const auto n_pages = static_cast<uint32_t>(n_tokens / kPageTokens);
  if (!can_load() || n_pages < table.n_sealed() + kMinPages) return nullptr;
  if (loads_.size() >= kMaxUnderWay) return nullptr;
  std::vector<size_t> levels;
  for (size_t i = levels_.size(); i > 0; --i) {
    if (way_of(levels_[i - 1], rest) == Way::kLoad) levels.push_back(i - 1);
  }
  if (levels.empty()) return nullptr;
  std::unique_ptr<PageLoad> load(new PageLoad(*this, table, query, n_pages));
  load->levels_ = std::move(levels);
  load->note_computing(table.n_sealed() * kPageTokens);
  loads_.push_back(load.get());
  ask_next(*load);
  return load;
}

// Asks the next tier for the pages that the earlier ones did not have.
void TierLink::ask_next(PageLoad& load) {
  const uint32_t first = load.first_;
  const auto tokens =
      load.query_.tokens.first(size_t{load.n_pages()} * kPageTokens).subspan(first * kPageTokens);
  while (!load.levels_.empty()) {
    load.level_ = load.levels_.back();
    load.levels_.pop_back();
    load.id_ = FetchId{++last_id_};
    TierQueue& queue = *levels_[load.level_].queue;
    TierLoad request{.id = load.id_,
                     .reader = kv_.pages().mark_of(load.query_.tenant),
                     .first = first,
                     .pages = whole_pages(load.query_.root, load.parent_, tokens),
                     .is_done = std::vector<bool>(load.n_pages() - first),
                     .present = 0,
                     .absent = load.n_pages() - first,
                     .front = load.front_};
    for (uint32_t page = first; page < load.n_pages(); ++page) {
      request.is_done[page - first] = load.loaded_[page].has_value();
    }
    if (queue.load(std::move(request))) return;
  }
  load.is_done_ = true;
}

void TierLink::take_loaded(PageLoad& load, const TierArrival& arrival) {
  if (arrival.end) return ask_next(load);
  // The step that computes pages before the front has ended; they may be in use by others.
  const uint32_t page = arrival.number;
  if (page < *load.front_ || page < load.table_.n_sealed() || load.loaded_[page]) return;
  if (!kv_.place(load.table_, page, arrival.bytes)) return;
  load.loaded_[page] = load.level_;
  load.marks_[page] = kv_.pages().known_as(arrival.page.known);
}

TierLink::LoadRate TierLink::rate_of(const PageLoad& load) const {
  const auto n_loads =
      static_cast<double>(std::ranges::count_if(loads_, [&](const PageLoad* other) {
        return other->level_ == load.level_ && !other->is_done_;
      }));
  return {.page_ms = n_loads * levels_[load.level_].queue->page_read_ms().value_or(0),
          .n_slots = n_slots_ / std::max(n_loads, 1.0)};
}

void TierLink::count_hits(const PageLoad& load, uint32_t begin, uint32_t end) {
  for (uint32_t page = begin / kPageTokens; page < end / kPageTokens; ++page) {
    if (load.loaded_[page]) levels_[*load.loaded_[page]].queue->count_hit(kPageTokens);
  }
}

void TierLink::forget(PageLoad& load) {
  if (!load.is_done_) levels_[load.level_].queue->cancel(load.id_);
  std::erase(loads_, &load);
}

}  // namespace kvik
