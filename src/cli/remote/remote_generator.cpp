#include "cli/remote/remote_generator.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/mutex.h"
#include "base/process/interrupts.h"
#include "base/process/thread.h"
#include "cli/remote/answer_events.h"
#include "cli/remote/request_json.h"

namespace kvik {
namespace {

constexpr Duration kCountTime = std::chrono::seconds(30);

}  // namespace

// Reads one answer on a thread of its own and passes it to the sink.
class RemoteGenerator::Reading {
 public:
  Reading(std::unique_ptr<HttpStream> stream, std::shared_ptr<CompletionSink> sink)
      : stream_(std::move(stream)), sink_(std::move(sink)), decided_(::eventfd(0, EFD_CLOEXEC)) {}
  ~Reading() { stop(); }

  Result<void> start() {
    TRY_ASSIGN(thread_, start_thread("kvik answer", [this] { run(); }));
    return {};
  }

  // Waits until the server has accepted or rejected the request, or a signal arrives. Returns the
  // error if it was rejected.
  std::optional<Error> wait() {
    pollfd events[] = {{decided_.get(), POLLIN, 0}, {Interrupts::signal_fd(), POLLIN, 0}};
    while (::poll(events, 2, -1) < 0) {
    }
    const MutexLock lock(mutex_);
    if (!is_rejected_) return std::nullopt;
    return error_;
  }

  // Ends the answer. The sink is not called afterwards.
  void stop() {
    {
      const MutexLock lock(mutex_);
      is_stopped_ = true;
    }
    stream_->stop();
    join_if_started(thread_);
  }

  std::optional<Error> failure() {
    const MutexLock lock(mutex_);
    return error_;
  }

 private:
  void run() {
    if (auto error = read_answer()) {
      const MutexLock lock(mutex_);
      if (!is_stopped_) error_ = std::move(error);
    }
    decide();
    bool is_rejected = false;
    {
      const MutexLock lock(mutex_);
      is_rejected = is_rejected_;
    }
    if (!is_rejected) sink_->on_done(events_.usage());
  }

  // Returns the error that ended the answer.
  std::optional<Error> read_answer() {
    const auto status = stream_->status();
    if (!status || *status != 200) {
      const MutexLock lock(mutex_);
      is_rejected_ = true;
    }
    if (!status) return status.error();
    if (*status != 200) {
      const auto body = stream_->body();
      return error_of({.status = *status, .body = body ? *body : std::string()});
    }
    decide();
    while (true) {
      const auto event = stream_->next_event();
      if (!event) return event.error();
      if (!*event) break;
      const auto now = std::chrono::steady_clock::now();
      if (auto read = events_.read(**event, now, *sink_); !read) return read.error();
    }
    if (events_.is_complete()) return std::nullopt;
    return Error{ErrorCode::kIo, "the server ended the answer before it was complete"};
  }

  void decide() {
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(decided_.get(), &one, sizeof(one));
  }

  const std::unique_ptr<HttpStream> stream_;
  const std::shared_ptr<CompletionSink> sink_;
  const FileDescriptor decided_;  // readable once the server has accepted or rejected the request
  AnswerEvents events_{std::chrono::steady_clock::now()};  // reading thread only
  std::thread thread_;
  Mutex mutex_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  bool is_rejected_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

namespace {

// Cancels an answer when it is destroyed.
template <class Reading>
class RemoteCompletion final : public Completion {
 public:
  explicit RemoteCompletion(std::shared_ptr<Reading> reading) : reading_(std::move(reading)) {}
  ~RemoteCompletion() override { reading_->stop(); }
  uint32_t prompt_tokens() const override { return 0; }

 private:
  const std::shared_ptr<Reading> reading_;
};

}  // namespace

RemoteGenerator::~RemoteGenerator() = default;

Result<Generator::Running> RemoteGenerator::answer(const ChatRequest& chat,
                                                   CompletionRequest request,
                                                   std::shared_ptr<CompletionSink> sink) {
  TRY_ASSIGN(auto completion, start("/v1/chat/completions",
                                    chat_body(card_.id.text(), chat, request), std::move(sink)));
  return Running{.completion = std::move(completion)};
}

Result<std::unique_ptr<Completion>> RemoteGenerator::complete(
    CompletionRequest request, std::shared_ptr<CompletionSink> sink) {
  return start("/v1/completions", completion_body(card_.id.text(), request), std::move(sink));
}

Result<std::unique_ptr<Completion>> RemoteGenerator::start(std::string_view path,
                                                           std::string_view json,
                                                           std::shared_ptr<CompletionSink> sink) {
  reading_.reset();
  TRY_ASSIGN(auto stream, client_.open(path, json));
  reading_ = std::make_shared<Reading>(std::move(stream), std::move(sink));
  TRY(reading_->start());
  if (auto error = reading_->wait()) return std::unexpected<Error>(std::move(*error));
  return std::make_unique<RemoteCompletion<Reading>>(reading_);
}

std::optional<Error> RemoteGenerator::failure() const {
  return reading_ ? reading_->failure() : std::nullopt;
}

Result<size_t> RemoteGenerator::count_tokens(const ChatRequest& chat) const {
  TRY_ASSIGN(const HttpAnswer answer,
             client_.post("/tokenize", count_body(card_.id.text(), chat), kCountTime));
  if (answer.status != 200) return std::unexpected<Error>(error_of(answer));
  std::error_code failed;
  const auto parsed = boost::json::parse(answer.body, failed);
  const auto* const object = failed ? nullptr : parsed.if_object();
  const auto* const count = object ? object->if_contains("count") : nullptr;
  if (!count || !count->is_int64()) {
    return fail(ErrorCode::kCorrupt, "the server's answer to /tokenize has no count");
  }
  return static_cast<size_t>(count->get_int64());
}

}  // namespace kvik
