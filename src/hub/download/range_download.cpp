#include "hub/download/range_download.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace kvik {
namespace {

constexpr uint64_t kMaxRangeChunks = 64;
constexpr int kMaxRefreshes = 8;
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kSaveInterval = std::chrono::seconds(1);

std::unexpected<Error> stopped_by_caller() {
  return fail(ErrorCode::kIo, "the download was stopped");
}

std::unexpected<Error> changed_on_server(const FileSource& source) {
  return fail(ErrorCode::kIo,
              fmt::format("'{}' has changed on the server while it was downloaded: pull it again",
                          printable(source.name)));
}

// Returns the reason of a failed request as a phrase.
std::string failure_of(const HttpTransfer& transfer) {
  if (!transfer.failure().empty()) return printable(transfer.failure());
  return fmt::format("the server answers {}", transfer.reply().status);
}

}  // namespace

Result<FileFacts> find_file_facts(HttpSession& session, const FileSource& source,
                                  const KeepGoing& keep_going) {
  for (int n_failed = 1;; ++n_failed) {
    uint64_t n_bytes = 0;
    const auto transfer =
        session.start({.url = source.url, .bearer = source.bearer, .range = std::pair(0, 0)},
                      [&](const HttpReply& reply, std::span<const std::byte> bytes) {
                        n_bytes += bytes.size();
                        return reply.status == 206 && n_bytes == 1;
                      });
    while (!transfer->is_done()) {
      session.run(kTick);
      if (!keep_going()) return stopped_by_caller();
    }
    const HttpReply& reply = transfer->reply();
    FileFacts facts{.url = reply.url,
                    .n_bytes = std::nullopt,
                    .has_ranges = reply.status == 206 && reply.content_range().has_value(),
                    .validator = reply.header("etag"),
                    .sha256 = reply.hub_header("x-linked-etag")};
    if (facts.validator.empty()) facts.validator = reply.header("last-modified");
    std::erase(facts.sha256, '"');
    if (facts.sha256.size() != 64) facts.sha256.clear();
    const bool is_answered = transfer->failure().empty() || transfer->was_ended_by_sink();
    if (is_answered && facts.has_ranges) {
      facts.n_bytes = reply.content_range()->second;
      return facts;
    }
    if (is_answered && reply.status == 200) {
      const std::string length = reply.header("content-length");
      if (!length.empty()) facts.n_bytes = std::strtoull(length.c_str(), nullptr, 10);
      return facts;
    }
    if (is_answered && !is_temporary(reply.status))
      return std::unexpected(status_error(reply, source.name));
    if (n_failed >= transfer->max_attempts()) {
      return fail(ErrorCode::kIo,
                  fmt::format("'{}': {}", printable(source.name), failure_of(*transfer)));
    }
    if (!wait_for_retry(retry_delay(n_failed, reply), keep_going)) return stopped_by_caller();
  }
}

RangeDownload::RangeDownload(HttpSession& session, const FileSource& source, FileFacts facts,
                             PartFile& part, PrefixHash* hash)
    : session_(session), source_(source), facts_(std::move(facts)), part_(part), hash_(hash) {}

Result<void> RangeDownload::save() {
  return hash_ != nullptr ? part_.save() : part_.save_durably();
}

Result<bool> RangeDownload::run(uint32_t n_connections, const OnBytes& on_bytes) {
  n_connections_ = std::max(1u, n_connections);
  keep_going_ = [&] { return on_bytes(done_bytes()); };
  TimePoint last_save = std::chrono::steady_clock::now();
  auto result = [&]() -> Result<bool> {
    while (!part_.is_complete()) {
      start_ranges();
      session_.run(kTick);
      TRY(finish_ended());
      if (hash_ != nullptr) hash_->advance(part_.complete_prefix());
      if (has_lost_ranges_) return false;
      if (!keep_going_()) return stopped_by_caller();
      if (std::chrono::steady_clock::now() - last_save < kSaveInterval) continue;
      TRY(save());
      last_save = std::chrono::steady_clock::now();
    }
    return true;
  }();
  ranges_.clear();
  TRY(save());
  return result;
}

uint64_t RangeDownload::done_bytes() const {
  uint64_t n_bytes = part_.complete_bytes();
  for (const auto& range : ranges_) n_bytes += (range->at - range->begin) % PartFile::kChunkBytes;
  return std::min(n_bytes, part_.size());
}

std::unique_ptr<RangeDownload::Range> RangeDownload::next_range() const {
  const auto is_free = [&](uint64_t chunk) {
    const uint64_t begin = part_.chunk_begin(chunk);
    return !part_.is_chunk_complete(chunk) && std::ranges::none_of(ranges_, [&](const auto& range) {
      return begin >= range->begin && begin < range->end;
    });
  };
  uint64_t first = 0;
  while (first < part_.n_chunks() && !is_free(first)) ++first;
  if (first == part_.n_chunks()) return nullptr;
  // Short enough that all connections are used until the end.
  const uint64_t n_left = (part_.size() - part_.complete_bytes()) / PartFile::kChunkBytes;
  const uint64_t n_max = std::clamp<uint64_t>(n_left / n_connections_, 1, kMaxRangeChunks);
  uint64_t end = first + 1;
  while (end < part_.n_chunks() && end - first < n_max && is_free(end)) ++end;
  const uint64_t begin_byte = part_.chunk_begin(first);
  return std::make_unique<Range>(Range{
      .transfer = nullptr, .begin = begin_byte, .at = begin_byte, .end = part_.chunk_begin(end)});
}

void RangeDownload::start_ranges() {
  if (std::chrono::steady_clock::now() < not_before_) return;
  while (ranges_.size() < n_connections_) {
    auto range = next_range();
    if (!range) break;
    ranges_.push_back(std::move(range));
  }
  for (const auto& range : ranges_) {
    if (!range->transfer) start(*range);
  }
}

void RangeDownload::start(Range& range) {
  HubRequest request{.url = facts_.url, .range = std::pair(range.at, range.end - 1)};
  if (facts_.url == source_.url) request.bearer = source_.bearer;
  range.is_valid = false;
  range.transfer = session_.start(
      std::move(request), [this, &range](const HttpReply& reply, std::span<const std::byte> bytes) {
        return take(range, reply, bytes);
      });
}

bool RangeDownload::take(Range& range, const HttpReply& reply, std::span<const std::byte> bytes) {
  if (!range.is_valid) {
    if (reply.status != 206) return false;
    const auto place = reply.content_range();
    if (!place || place->first != range.at) return false;
    if (place->second != part_.size()) return false;
    range.is_valid = true;
  }
  const uint64_t n_bytes = std::min<uint64_t>(bytes.size(), range.end - range.at);
  const auto written = part_.write(range.at, bytes.first(n_bytes));
  if (!written) write_error_ = written.error();
  if (!written) return false;
  range.at += n_bytes;
  n_failed_ = 0;
  part_.mark_complete(range.begin, range.at);
  return n_bytes == bytes.size();
}

Result<void> RangeDownload::finish_ended() {
  for (auto& range : ranges_) {
    if (!range->transfer || !range->transfer->is_done()) continue;
    if (write_error_) return std::unexpected(*write_error_);
    const auto transfer = std::move(range->transfer);
    if (range->at < range->end) TRY(on_failure(*range, *transfer));
  }
  std::erase_if(ranges_, [](const auto& range) { return range->at == range->end; });
  return {};
}

Result<void> RangeDownload::on_failure(const Range& range, const HttpTransfer& transfer) {
  const HttpReply& reply = transfer.reply();
  const bool is_answered = transfer.failure().empty();
  if (!range.is_valid && reply.status == 206) {
    const auto place = reply.content_range();
    if (place && place->second != part_.size()) return changed_on_server(source_);
  }
  if (is_answered && reply.status == 416) return changed_on_server(source_);
  if (reply.status == 200 && transfer.was_ended_by_sink()) {
    has_lost_ranges_ = true;
    return {};
  }
  const bool is_refused = is_answered && reply.status >= 400 && !is_temporary(reply.status);
  // The address of a redirect is valid for a limited time.
  const bool may_be_outdated =
      is_refused && facts_.url != source_.url && n_refreshed_ < kMaxRefreshes;
  if (is_refused && !may_be_outdated) return std::unexpected(status_error(reply, source_.name));
  // Failures of other connections at the same time are one failure.
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < not_before_) return {};
  ++n_failed_;
  if (n_failed_ >= kMaxAttempts) {
    return fail(ErrorCode::kIo,
                fmt::format("'{}': {}; what has been downloaded is resumed by the next pull",
                            printable(source_.name), failure_of(transfer)));
  }
  if (may_be_outdated) {
    ++n_refreshed_;
    TRY_ASSIGN(FileFacts facts, find_file_facts(session_, source_, keep_going_));
    if (facts.n_bytes != part_.size()) return changed_on_server(source_);
    facts_ = std::move(facts);
    has_lost_ranges_ = !facts_.has_ranges;
    return {};
  }
  not_before_ = now + retry_delay(n_failed_, reply);
  return {};
}

Result<void> download_whole(HttpSession& session, const FileSource& source, const FileFacts& facts,
                            PartFile& part, const RangeDownload::OnBytes& on_bytes) {
  for (int n_failed = 1;; ++n_failed) {
    part.mark_none();
    uint64_t at = 0;
    std::optional<Error> write_error;
    const auto transfer =
        session.start({.url = source.url, .bearer = source.bearer},
                      [&](const HttpReply& reply, std::span<const std::byte> bytes) {
                        if (reply.status != 200) return false;
                        if (facts.n_bytes && at + bytes.size() > *facts.n_bytes) return false;
                        const auto written = part.write(at, bytes);
                        if (!written) write_error = written.error();
                        at += bytes.size();
                        return written.has_value();
                      });
    while (!transfer->is_done()) {
      session.run(kTick);
      if (!on_bytes(at)) return stopped_by_caller();
    }
    if (write_error) return std::unexpected(*write_error);
    const HttpReply& reply = transfer->reply();
    const bool is_whole = transfer->failure().empty() && !transfer->was_ended_by_sink() &&
                          reply.status == 200 && (!facts.n_bytes || at == *facts.n_bytes);
    if (is_whole) {
      part.mark_complete(0, at);
      return {};
    }
    if (transfer->was_ended_by_sink() && reply.status == 200) return changed_on_server(source);
    const bool is_answered = transfer->failure().empty();
    if (is_answered && reply.status != 200 && !is_temporary(reply.status)) {
      return std::unexpected(status_error(reply, source.name));
    }
    if (n_failed >= transfer->max_attempts()) {
      return fail(ErrorCode::kIo,
                  fmt::format("'{}': {}", printable(source.name), failure_of(*transfer)));
    }
    if (!wait_for_retry(retry_delay(n_failed, reply), [&] { return on_bytes(0); }))
      return stopped_by_caller();
  }
}

}  // namespace kvik
