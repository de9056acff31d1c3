#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "service/service_api.h"

namespace kvik {

// Generates the answers of `kvik run`: a model in this process, or a server.
class Generator {
 public:
  virtual ~Generator() = default;

  virtual const ModelCard& card() const = 0;
  // Returns where the model runs, such as "http://127.0.0.1:8080"; empty for this process.
  virtual std::string place() const = 0;

  // A running answer to a conversation. Destroying `completion` cancels it.
  struct Running {
    std::unique_ptr<Completion> completion;
    HistoryTokens prompt = {};  // empty if its tokens are not known
  };
  // Begins the answer to a conversation; `request` has its settings and no prompt. The sink is
  // called on another thread. Errors: those of ServiceApi, and of the connection to a server.
  virtual Result<Running> answer(const ChatRequest& chat, CompletionRequest request,
                                 std::shared_ptr<CompletionSink> sink) = 0;
  // Begins to continue the prompt of `request`.
  virtual Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                                       std::shared_ptr<CompletionSink> sink) = 0;
  // Returns the error that broke off the last answer after it had begun: the connection was lost.
  virtual std::optional<Error> failure() const { return std::nullopt; }

  // Returns the number of tokens of a conversation as the chat template renders it.
  virtual Result<size_t> count_tokens(const ChatRequest& chat) const = 0;
};

// A model in this process.
class LocalGenerator final : public Generator {
 public:
  // Borrows the service.
  explicit LocalGenerator(ServiceApi& service) : service_(service) {}

  const ModelCard& card() const override { return service_.card(); }
  std::string place() const override { return {}; }
  Result<Running> answer(const ChatRequest& chat, CompletionRequest request,
                         std::shared_ptr<CompletionSink> sink) override;
  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override {
    return service_.complete(std::move(request), std::move(sink));
  }
  Result<size_t> count_tokens(const ChatRequest& chat) const override;

 private:
  ServiceApi& service_;
};

}  // namespace kvik
