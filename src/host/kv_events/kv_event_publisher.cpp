#include "host/kv_events/kv_event_publisher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <unordered_set>
#include <utility>

#include "base/process/thread.h"
#include "tensor/kv_type.h"

namespace kvik {
namespace {

constexpr size_t kMaxWaiting = 16'384;  // events, plus twice the number of held pages
constexpr size_t kMaxOfBatch = 256;
constexpr size_t kMaxKept = 10'000;  // batches
constexpr size_t kMaxKeptBytes = size_t{24} << 20;
constexpr std::chrono::milliseconds kPause{5};  // time in which events are collected into a batch
constexpr std::chrono::milliseconds kSecond{1000};
constexpr std::chrono::milliseconds kLinger{200};

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

KvEventPublisher::KvEventPublisher(const KvEventOptions& options)
    : options_(options),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      kept_(kMaxKept, kMaxKeptBytes) {}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::start(const KvEventOptions& options) {
  if (options.topic.size() > kMaxTopicBytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the topic of KV events has {} bytes, expected at most {}",
                            options.topic.size(), kMaxTopicBytes));
  }
  std::unique_ptr<KvEventPublisher> publisher(new KvEventPublisher(options));
  if (!publisher->wake_.is_open()) return fail(ErrorCode::kIo, "no descriptor for KV events");
  TRY_ASSIGN(
      publisher->publisher_,
      EventSocket::bind(options.endpoint, EventPeer::Kind::kSubscriber, publisher->options_.topic));
  if (!options.replay_endpoint.empty()) {
    TRY_ASSIGN(publisher->replayer_,
               EventSocket::bind(options.replay_endpoint, EventPeer::Kind::kReplayClient, ""));
  }
  {
    const MutexLock lock(publisher->mutex_);
    publisher->add({.kind = KvEvent::Kind::kAllCleared});
  }
  TRY_ASSIGN(publisher->thread_, start_thread("kvik-events", [&self = *publisher] { self.run(); }));
  return publisher;
}

KvEventPublisher::~KvEventPublisher() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  join_if_started(thread_);
}

// --- events from the engine ---

void KvEventPublisher::on_stored(const Stored& page) {
  const uint64_t hash = block_hash(page.key);
  const MutexLock lock(mutex_);
  Held& held = held_[hash];
  if (++held.n > 1) return;
  if (page.parent != nullptr) held.parent = block_hash(*page.parent);
  held.tokens.assign(page.tokens.begin(), page.tokens.end());
  held.adapter = page.adapter;
  add(held.stored(hash));
}

void KvEventPublisher::on_removed(const PageKey& key) {
  const uint64_t hash = block_hash(key);
  const MutexLock lock(mutex_);
  const auto held = held_.find(hash);
  if (held == held_.end() || --held->second.n > 0) return;
  held_.erase(held);
  add({.kind = KvEvent::Kind::kRemoved, .hash = hash});
}

void KvEventPublisher::add(KvEvent event) {
  if (waiting_.size() >= kMaxWaiting + 2 * held_.size()) return queue_full_state();
  waiting_.push_back(std::move(event));
  if (waiting_.size() == 1) wake();
}

void KvEventPublisher::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof(one));
}

// Replaces the queue by an event that clears the cache, followed by events for all held pages,
// parents before children.
void KvEventPublisher::queue_full_state() {
  ++n_resets_;
  waiting_.clear();
  waiting_.push_back({.kind = KvEvent::Kind::kAllCleared});
  std::unordered_set<uint64_t> seen;
  std::vector<std::pair<uint64_t, const Held*>> above;
  for (const auto& [hash, held] : held_) {
    const Held* at = &held;
    for (uint64_t next = hash; at != nullptr && seen.insert(next).second;) {
      above.emplace_back(next, at);
      const auto parent = at->parent ? held_.find(*at->parent) : held_.end();
      at = parent == held_.end() ? nullptr : &parent->second;
      if (at != nullptr) next = parent->first;
    }
    for (; !above.empty(); above.pop_back()) {
      const auto& [own, page] = above.back();
      waiting_.push_back(page->stored(own));
    }
  }
  wake();
}

// --- sending ---

void KvEventPublisher::run() {
  for (bool has_more = true; has_more;) {
    serve_connections(kSecond);
    std::this_thread::sleep_for(kPause);
    has_more = send_batch();
  }
  const TimePoint end = std::chrono::steady_clock::now() + kLinger;
  while (!has_sent_all() && std::chrono::steady_clock::now() < end) serve_connections(kPause);
}

// Makes a batch of waiting events, which serve_connections() sends. Returns false if the queue is
// empty and the publisher is stopping.
bool KvEventPublisher::send_batch() {
  std::vector<KvEvent> events;
  {
    const MutexLock lock(mutex_);
    const size_t n = std::min(waiting_.size(), kMaxOfBatch);
    events.assign(std::make_move_iterator(waiting_.begin()),
                  std::make_move_iterator(waiting_.begin() + static_cast<ptrdiff_t>(n)));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n));
    if (events.empty()) return !is_stopping_;
    if (is_stopping_ || !waiting_.empty()) wake();
  }
  kept_.add(encode_kv_events(now_s(), events, options_.encoding));
  return true;
}

// Waits for connections or wake(), at most `at_most`, then reads requests and sends batches.
void KvEventPublisher::serve_connections(std::chrono::milliseconds at_most) {
  std::vector<pollfd> events = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  publisher_->add_to(events, kept_);
  const size_t n_first = events.size();
  if (replayer_) replayer_->add_to(events, kept_);
  ::poll(events.data(), events.size(), static_cast<int>(at_most.count()));
  uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof(count));
  publisher_->act(&events[1], kept_);
  if (replayer_) replayer_->act(&events[n_first], kept_);
  publish_counts();
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < second_end_) return;
  second_end_ = now + kSecond;
  for (EventSocket* socket : {publisher_.get(), replayer_.get()}) {
    if (!socket) continue;
    socket->close_late(now);
    socket->begin_second();
  }
}

void KvEventPublisher::publish_counts() {
  PageLogCounts now{.n_subscribers = publisher_->n_peers(),
                    .n_lost_batches = publisher_->n_lost(),
                    .batch_bytes = kept_.n_bytes(),
                    .connection_bytes = publisher_->n_bytes()};
  if (replayer_) {
    now.n_replay_readers = replayer_->n_peers();
    now.connection_bytes += replayer_->n_bytes();
  }
  const MutexLock lock(mutex_);
  sent_ = now;
}

PageLogCounts KvEventPublisher::counts() const {
  constexpr uint64_t kTokenBytes = kPageTokens * sizeof(TokenId);
  constexpr uint64_t kLinks = 2 * sizeof(void*);  // of a node in the hash table
  const MutexLock lock(mutex_);
  PageLogCounts now = sent_;
  now.n_waiting = waiting_.size();
  now.n_resets = n_resets_;
  now.held_bytes = held_.size() * (sizeof(*held_.begin()) + kLinks + kTokenBytes) +
                   held_.bucket_count() * sizeof(void*);
  now.waiting_bytes = waiting_.size() * (sizeof(KvEvent) + kTokenBytes);
  return now;
}

bool KvEventPublisher::has_sent_all() const {
  return publisher_->is_done(kept_) && (!replayer_ || replayer_->is_done(kept_));
}

}  // namespace kvik
