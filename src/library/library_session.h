#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "library/library_model.h"
#include "library/library_request.h"

namespace kvik {

// A sequence of tokens of a model, of which the KV cache holds as much as it has room for. One
// thread.
class LibrarySession : public std::enable_shared_from_this<LibrarySession> {
 public:
  // keep: the time after each use during which other pages are evicted first.
  // Errors: kInvalidArgument for a longer time than a day.
  static Result<std::shared_ptr<LibrarySession>> create(std::shared_ptr<LibraryModel> model,
                                                        std::chrono::seconds keep);
  // Reads a file of save(). Errors: kNotFound, kIo; kCorrupt for another file; kInvalidArgument for
  // one of another model.
  static Result<std::shared_ptr<LibrarySession>> load(std::shared_ptr<LibraryModel> model,
                                                      const std::string& path,
                                                      std::chrono::seconds keep);
  // Returns a session with the same tokens, which are not copied before one of the two changes.
  std::shared_ptr<LibrarySession> fork() const;

  const LibraryModel& model() const { return *model_; }
  std::span<const TokenId> tokens() const { return *tokens_; }
  // Errors: kInvalidArgument for tokens outside the vocabulary; kContextLength.
  Result<void> append(std::span<const TokenId> tokens);
  // Errors: kInvalidArgument if there are fewer tokens.
  Result<void> truncate(size_t n_tokens);

  // Computes the tokens that are not cached. `logits`, if it is not empty, receives those after the
  // last token. Errors: those of LibraryModel::compute(); kInvalidArgument for an empty session.
  Result<void> prefill(std::span<float> logits) const;
  // Starts a completion; the request appends the generated tokens to this session. Errors: those of
  // /v1/completions, and kInvalidArgument for fields that a session does not take.
  Result<std::unique_ptr<LibraryRequest>> generate(std::string_view options);

  // Computes the session and writes its pages to a file. Errors: those of prefill() and
  // LibraryModel::export_pages().
  Result<void> export_pages(const std::string& path) const;
  // Writes the tokens and the identity of the model. Errors: kNotFound, kIo.
  Result<void> save(const std::string& path) const;

 private:
  using Tokens = std::vector<TokenId>;
  LibrarySession(std::shared_ptr<LibraryModel> model, std::chrono::seconds keep,
                 std::shared_ptr<Tokens> tokens)
      : model_(std::move(model)), keep_(keep), tokens_(std::move(tokens)) {}

  Tokens& own_tokens();
  void take_tokens_of(std::string_view answer);
  Result<std::string> body_of(std::string_view options) const;

  const std::shared_ptr<LibraryModel> model_;
  const std::chrono::seconds keep_;
  std::shared_ptr<Tokens> tokens_;  // shared with forks until one of them changes
};

}  // namespace kvik
