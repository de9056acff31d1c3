#include "host/kv_events/kv_event_publisher.h"

#include <fmt/format.h>
#include <zmq.h>

#include <array>
#include <chrono>
#include <cstring>
#include <unordered_set>

#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr size_t kMaxWaiting = 100'000;  // events
constexpr size_t kMaxOfBatch = 1000;
constexpr std::chrono::milliseconds kPause{5};  // in which events gather into a batch
constexpr std::chrono::milliseconds kReplayEvery{20};
constexpr int kLingerMs = 200;
constexpr int kMaxUnsent = 10'000;  // batches, for each reader

std::array<unsigned char, 8> big_endian(uint64_t number) {
  std::array<unsigned char, 8> bytes{};
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(number >> (56 - 8 * i));
  return bytes;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// One message: its parts so far, or std::nullopt where none waits.
std::optional<std::vector<std::string>> received(void* socket) {
  std::vector<std::string> parts;
  int has_more = 1;
  while (has_more != 0) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&message);
      return std::nullopt;
    }
    parts.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    has_more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return parts;
}

void send_parts(void* socket, std::initializer_list<std::string_view> parts) {
  size_t i = 0;
  for (const std::string_view part : parts) {
    const int flags = ZMQ_DONTWAIT | (++i < parts.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket, part.data(), part.size(), flags) < 0)
      return;  // nobody there: nothing is lost
  }
}

std::string_view as_text(const std::array<unsigned char, 8>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void KvEventPublisher::CloseSocket::operator()(void* socket) const { zmq_close(socket); }
void KvEventPublisher::CloseContext::operator()(void* context) const { zmq_ctx_term(context); }

KvEventPublisher::KvEventPublisher(const KvEventOptions& options)
    : options_(options), context_(zmq_ctx_new()) {}

Result<KvEventPublisher::Socket> KvEventPublisher::bound(int type, const std::string& endpoint) {
  Socket socket(zmq_socket(context_.get(), type));
  if (!socket)
    return fail(ErrorCode::kIo,
                fmt::format("no socket for KV events: {}", zmq_strerror(zmq_errno())));
  zmq_setsockopt(socket.get(), ZMQ_LINGER, &kLingerMs, sizeof(kLingerMs));
  zmq_setsockopt(socket.get(), ZMQ_SNDHWM, &kMaxUnsent, sizeof(kMaxUnsent));
  if (zmq_bind(socket.get(), endpoint.c_str()) == 0) return socket;
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "KV events cannot be published at '{}': {}; expected tcp://HOST:PORT or ipc://PATH",
          endpoint, zmq_strerror(zmq_errno())));
}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::start(const KvEventOptions& options) {
  std::unique_ptr<KvEventPublisher> publisher(new KvEventPublisher(options));
  TRY_ASSIGN(publisher->publisher_, publisher->bound(ZMQ_PUB, options.endpoint));
  if (!options.replay_endpoint.empty()) {
    TRY_ASSIGN(publisher->replayer_, publisher->bound(ZMQ_ROUTER, options.replay_endpoint));
  }
  {
    const MutexLock lock(publisher->mutex_);
    publisher->add({.kind = KvEvent::Kind::kAllCleared});
  }
  TRY_ASSIGN(publisher->thread_,
             start_thread("kvik-events", [&self = *publisher] { self.send_all(); }));
  return publisher;
}

KvEventPublisher::~KvEventPublisher() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// --- what the engine tells ---

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
  if (waiting_.size() >= kMaxWaiting) return tell_all_again();
  waiting_.push_back(std::move(event));
  wake_.notify_one();
}

// Whoever listens is told to forget, and hears of all that is held, those that stand in front
// first.
void KvEventPublisher::tell_all_again() {
  waiting_.clear();
  waiting_.push_back({.kind = KvEvent::Kind::kAllCleared});
  std::unordered_set<uint64_t> told;
  std::vector<std::pair<uint64_t, const Held*>> above;
  for (const auto& [hash, held] : held_) {
    const Held* at = &held;
    for (uint64_t next = hash; at != nullptr && told.insert(next).second;) {
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
  wake_.notify_one();
}

// --- what is sent ---

void KvEventPublisher::send_all() {
  while (true) {
    std::vector<KvEvent> events;
    {
      const MutexLock lock(mutex_);
      const auto has_work = [this]() REQUIRES(mutex_) { return is_stopping_ || !waiting_.empty(); };
      wake_.wait_for(mutex_, kReplayEvery, has_work);
      if (is_stopping_ && waiting_.empty()) return;
      const size_t n = std::min(waiting_.size(), kMaxOfBatch);
      events.assign(std::make_move_iterator(waiting_.begin()),
                    std::make_move_iterator(waiting_.begin() + static_cast<ptrdiff_t>(n)));
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n));
    }
    if (!events.empty()) send(events);
    if (replayer_) answer_replays();
    if (events.size() < kMaxOfBatch) std::this_thread::sleep_for(kPause);
  }
}

void KvEventPublisher::send(const std::vector<KvEvent>& events) {
  const uint64_t number = n_batches_++;
  std::string payload = encode_kv_events(now_s(), events, options_.encoding);
  send_parts(publisher_.get(), {options_.topic, as_text(big_endian(number)), payload});
  kept_.emplace_back(number, std::move(payload));
  if (kept_.size() > kKept) kept_.pop_front();
}

// A question is who asks, an empty frame, and the number from which on; answered by one message for
// each batch, and one that ends them: the number of all ones.
void KvEventPublisher::answer_replays() {
  while (const auto question = received(replayer_.get())) {
    if (question->size() != 3 || question->back().size() != 8) continue;
    uint64_t first = 0;
    for (const char byte : question->back()) first = first << 8 | static_cast<unsigned char>(byte);
    const std::string& who = question->front();
    for (const auto& [number, payload] : kept_) {
      if (number >= first)
        send_parts(replayer_.get(), {who, "", as_text(big_endian(number)), payload});
    }
    send_parts(replayer_.get(), {who, "", as_text(big_endian(UINT64_MAX)), ""});
  }
}

}  // namespace kvik
