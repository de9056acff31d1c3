#include "server/dialects/ollama/pull_reply.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/dialects/ollama/ollama_writer.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kSuccess = "success";

json::object progress_json(const PullProgress& progress) {
  json::object out{{"status", valid_utf8(progress.status)}};
  if (!progress.digest.empty()) out["digest"] = "sha256:" + valid_utf8(progress.digest);
  if (progress.n_total > 0) {
    out["total"] = progress.n_total;
    out["completed"] = progress.n_done;
  }
  return out;
}

}  // namespace

PendingReply::State PullReply::advance(std::string& out) {
  PullMailbox::News news = mailbox_->take();
  while (kind_ == Kind::kWhole && news.progress) news = mailbox_->take();
  if (news.progress) {
    has_said_success_ = news.progress->status == kSuccess;
    out += json_line(progress_json(*news.progress));
    return State::kRunning;
  }
  if (!news.has_ended) return State::kRunning;
  error_ = std::move(news.error);
  if (error_) {
    out += final_error_event(*error_);
  } else if (!has_said_success_) {
    out += json_line({{"status", kSuccess}});
  }
  return State::kDone;
}

HttpResponse PullReply::response() {
  if (kind_ == Kind::kStream) return json_lines_stream();
  if (error_) return error_response(*error_);
  return {.status = 200, .body = json::serialize(json::object{{"status", kSuccess}})};
}

std::string PullReply::final_error_event(const Error& error) const {
  return error_json(http_error(error), ErrorShape::kOllama, "").append("\n");
}

std::string PullReply::summary() const { return fmt::format("pull {}", printable(model_)); }

}  // namespace kvik
