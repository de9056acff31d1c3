#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/dialects/ollama/model_pulls.h"
#include "server/http/pending_reply.h"

namespace kvik {

// The answer of /api/pull: a line for each step of the download, or one object when it has ended.
// Destroying it stops the download. Network thread.
class PullReply final : public PendingReply {
 public:
  PullReply(std::shared_ptr<PullMailbox> mailbox, std::string model, Kind kind)
      : mailbox_(std::move(mailbox)), model_(std::move(model)), kind_(kind) {}
  ~PullReply() override { mailbox_->close(); }

  Kind kind() const override { return kind_; }
  void set_wake(std::function<void()> wake) override { mailbox_->set_wake(std::move(wake)); }
  State advance(std::string& out) override;
  HttpResponse response() override;
  std::string_view heartbeat() const override { return " "; }
  std::string final_error_event(const Error& error) const override;
  std::string summary() const override;

 private:
  std::shared_ptr<PullMailbox> mailbox_;  // shared with the download's thread
  const std::string model_;
  const Kind kind_;
  bool has_said_success_ = false;
  std::optional<Error> error_;
};

}  // namespace kvik
