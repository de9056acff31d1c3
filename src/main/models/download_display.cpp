#include "main/models/download_display.h"

#include <fmt/format.h>

#include <chrono>

#include "base/printable.h"
#include "base/process/streams.h"
#include "base/quantity.h"

namespace kvik {
namespace {

constexpr Duration kRateWindow = std::chrono::seconds(5);

// Returns a time as "45 s", "3 min 20 s" or "2 h 5 min".
std::string time_text(double seconds) {
  const auto s = static_cast<uint64_t>(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace

std::string DownloadDisplay::rate_text(const PullProgress& progress) {
  const TimePoint now = std::chrono::steady_clock::now();
  samples_.push_back({now, progress.n_done});
  while (samples_.size() > 2 && now - samples_.front().at > kRateWindow) samples_.pop_front();
  const double seconds = to_s(now - samples_.front().at);
  if (seconds < 0.5 || progress.n_done <= samples_.front().n_done) return "";
  const double rate = static_cast<double>(progress.n_done - samples_.front().n_done) / seconds;
  const double left = static_cast<double>(progress.n_total - progress.n_done) / rate;
  return fmt::format(", {}/s, {} left", format_bytes(static_cast<uint64_t>(rate)), time_text(left));
}

void DownloadDisplay::show(const PullProgress& progress) {
  const std::string status = printable(progress.status);
  if (status != status_) {
    bar_.reset();
    samples_.clear();
    status_ = status;
  }
  if (shown_.insert(status).second && status != "success") {
    streams::print_error(progress.n_total > 0
                             ? fmt::format("{}: {}", status, format_bytes(progress.n_total))
                             : status);
  }
  if (progress.n_total == 0) return;
  if (!samples_.empty() && progress.n_done < samples_.back().n_done) samples_.clear();
  if (!bar_) bar_ = std::make_unique<ProgressBar>(status.substr(0, status.find(' ')));
  bar_->show(progress.n_done, progress.n_total,
             fmt::format("{} of {}{}", format_bytes(progress.n_done),
                         format_bytes(progress.n_total), rate_text(progress)));
}

}  // namespace kvik
