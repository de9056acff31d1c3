#include "server/operate/live_mailbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvik {
namespace {

// A reader that was away for long does not need each step.
constexpr size_t kMaxSteps = 256;
constexpr size_t kMaxSequences = 4096 + 64;

// Both are sorted by id; for a page in both, the newer view applies.
std::vector<PageCell> merged_pages(const std::vector<PageCell>& older,
                                   const std::vector<PageCell>& newer) {
  std::vector<PageCell> pages;
  pages.reserve(older.size() + newer.size());
  std::ranges::set_union(newer, older, std::back_inserter(pages), {}, &PageCell::page,
                         &PageCell::page);
  return pages;
}

}  // namespace

LiveView merged(const LiveView& older, const LiveView& newer) {
  LiveView view = newer;
  if (!newer.is_whole) {
    view.is_whole = older.is_whole;
    view.pages = merged_pages(older.pages, newer.pages);
  }
  std::ranges::copy_if(older.sequences, std::back_inserter(view.sequences),
                       [](const auto& s) { return s.phase == LiveSequence::Phase::kEnded; });
  if (view.sequences.size() > kMaxSequences) view.sequences.resize(kMaxSequences);
  const uint64_t first = newer.steps.empty() ? UINT64_MAX : newer.steps.front().number;
  std::vector<LiveStep> steps;
  std::ranges::copy_if(older.steps, std::back_inserter(steps),
                       [&](const LiveStep& step) { return step.number < first; });
  steps.insert(steps.end(), newer.steps.begin(), newer.steps.end());
  if (steps.size() > kMaxSteps) steps.erase(steps.begin(), steps.end() - kMaxSteps);
  view.steps = std::move(steps);
  return view;
}

void LiveMailbox::on_view(std::shared_ptr<const LiveView> view) {
  const MutexLock lock(mutex_);
  view_ = view_ ? std::make_shared<const LiveView>(merged(*view_, *view)) : std::move(view);
  if (wake_) wake_();
}

void LiveMailbox::on_end() {
  const MutexLock lock(mutex_);
  has_ended_ = true;
  if (wake_) wake_();
}

LiveMailbox::News LiveMailbox::take() {
  const MutexLock lock(mutex_);
  return {.view = std::exchange(view_, nullptr), .has_ended = has_ended_};
}

void LiveMailbox::set_wake(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && (view_ || has_ended_)) wake_();
}

void LiveMailbox::close() {
  const MutexLock lock(mutex_);
  wake_ = nullptr;
}

}  // namespace kvik
