#include "study/window_logits.h"

#include <fmt/format.h>

#include <utility>

#include "study/single_sequence.h"

namespace kvik {
namespace {

class CallingSink final : public EventSink {
 public:
  explicit CallingSink(const WindowLogits::Each& each) : each_(each) {}
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override { is_finished_ = true; }
  void on_logits(uint32_t position, std::span<const float> logits) override {
    each_(position, logits);
  }
  bool is_finished() const { return is_finished_; }

 private:
  const WindowLogits::Each& each_;
  bool is_finished_ = false;
};

}  // namespace

Result<std::unique_ptr<WindowLogits>> WindowLogits::create(LoadedModel& loaded, uint32_t n_ctx) {
  std::unique_ptr<WindowLogits> windows(new WindowLogits);
  windows->adapter_ = loaded.adapter;
  TRY_ASSIGN(windows->engine_, single_sequence_engine(loaded, n_ctx + 1, windows->clock_));
  return windows;
}

Result<void> WindowLogits::read(std::span<const TokenId> window, const Each& each) {
  Request request;
  request.prompt.assign(window.begin(), window.end());
  request.max_tokens = 0;
  request.adapter = adapter_;
  request.logits = Request::Logits::kAll;
  // no window hits the cached pages of another
  request.cache_salt = fmt::format("window {}", n_read_);
  TRY(engine_->check(request));
  const auto sink = std::make_shared<CallingSink>(each);
  engine_->submit(RequestId{n_read_++}, std::move(request), sink);
  while (!sink->is_finished()) engine_->step();
  return {};
}

Result<std::vector<std::vector<TokenId>>> windows_of(const Tokenizer& tokenizer,
                                                     const std::string& text, uint32_t n_ctx,
                                                     const TokenizeOptions& options) {
  const std::vector<TokenId> ids = tokenizer.tokenize(text, options);
  if (ids.size() < n_ctx) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the text has {} tokens, expected at least the {} of one window",
                            ids.size(), n_ctx));
  }
  std::vector<std::vector<TokenId>> windows;
  for (size_t begin = 0; begin + n_ctx <= ids.size(); begin += n_ctx) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    windows.emplace_back(first, first + n_ctx);
    if (tokenizer.adds_bos() && tokenizer.bos()) windows.back().front() = *tokenizer.bos();
  }
  return windows;
}

}  // namespace kvik
