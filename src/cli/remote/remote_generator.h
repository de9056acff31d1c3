#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/generator.h"
#include "cli/remote/http_client.h"

namespace kvik {

// Generates answers by a running server, over /v1/chat/completions and /v1/completions. One answer
// at a time.
class RemoteGenerator final : public Generator {
 public:
  // card: of the served model, by whose `id` requests name it (card_of()).
  RemoteGenerator(HttpClient client, ModelCard card)
      : client_(std::move(client)), card_(std::move(card)) {}
  ~RemoteGenerator() override;

  const ModelCard& card() const override { return card_; }
  std::string place() const override { return client_.url().text(); }
  // Waits until the server accepts or rejects the request, or a signal arrives.
  Result<Running> answer(const ChatRequest& chat, CompletionRequest request,
                         std::shared_ptr<CompletionSink> sink) override;
  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override;
  std::optional<Error> failure() const override;
  Result<size_t> count_tokens(const ChatRequest& chat) const override;

 private:
  class Reading;

  Result<std::unique_ptr<Completion>> start(std::string_view path, std::string_view json,
                                            std::shared_ptr<CompletionSink> sink);

  const HttpClient client_;
  const ModelCard card_;
  std::shared_ptr<Reading> reading_;  // the last answer
};

}  // namespace kvik
