#include <fmt/format.h>

#include "server/dialects/event_json.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/pending_reply.h"
#include "server/http/status.h"
#include "server/operate/live_json.h"
#include "server/operate/live_mailbox.h"
#include "service/tenant_view.h"

namespace kvik {
namespace {

// Server-sent events, one per view; `event: end` when the server stops. Network thread.
class LiveReply final : public PendingReply {
 public:
  // `tenant`: the viewer, if it may not see everything.
  LiveReply(std::shared_ptr<LiveMailbox> mailbox, const ModelCard& card,
            std::optional<std::string> tenant)
      : mailbox_(std::move(mailbox)), card_(card), tenant_(std::move(tenant)) {}
  ~LiveReply() override { mailbox_->close(); }

  Kind kind() const override { return Kind::kStream; }
  void set_wake(std::function<void()> wake) override { mailbox_->set_wake(std::move(wake)); }
  std::string final_error_event(const Error&) const override { return std::string(kEndEvent); }
  std::string summary() const override { return fmt::format("live views={}", n_views_); }

  State advance(std::string& out) override {
    const LiveMailbox::News news = mailbox_->take();
    if (news.has_ended) {
      out += kEndEvent;
      return State::kDone;
    }
    if (!news.view) return State::kRunning;
    ++n_views_;
    out += event_of(tenant_ ? live_json(tenant_view(*news.view, *tenant_), card_, TimePoint{})
                            : live_json(*news.view, card_, TimePoint{}));
    return State::kRunning;
  }

  HttpResponse response() override { return event_stream(); }

 private:
  std::shared_ptr<LiveMailbox> mailbox_;  // shared with a thread that is passing a view
  const ModelCard& card_;
  const std::optional<std::string> tenant_;
  uint64_t n_views_ = 0;
};

}  // namespace

Reply handle_live(const HandlerContext& context, const HttpRequest& request) {
  if (request.method == "HEAD") {
    return HttpResponse{.status = 200, .body = "", .content_type = "text/event-stream"};
  }
  auto mailbox = std::make_shared<LiveMailbox>();
  const Result<void> watched = context.service.watch(mailbox);
  if (!watched) return error_response(watched.error());
  const ApiKey* key = find_key(request, context.options);
  return std::make_unique<LiveReply>(
      std::move(mailbox), context.service.card(),
      key && !key->is_operator ? std::optional(key->name) : std::nullopt);
}

}  // namespace kvik
