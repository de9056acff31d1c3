#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "engine/request/sampling_params.h"
#include "service/service_api.h"
#include "text/tokenizer.h"

namespace kvik {

// Adds the banned texts, each with and without a leading space, and the biases of texts to the
// parameters. Errors: kInvalidArgument if a text has too many tokens.
Result<void> add_tokens(const Tokenizer& tokenizer, const SamplingTexts& texts,
                        SamplingParams& params);

// Returns the token sequences that contain one of the texts: a token that contains it, or a token
// that ends with its beginning and the tokens of the rest. Looks at every token of the vocabulary.
DryBreakers find_dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

// Remembers the breakers of the last used lists of texts. Any thread.
class DryBreakerCache {
 public:
  // Borrows the tokenizer.
  explicit DryBreakerCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the breakers of these texts, or of llama.cpp's default ones.
  std::shared_ptr<const DryBreakers> find(const std::optional<std::vector<std::string>>& texts);

 private:
  static constexpr size_t kLists = 8;
  using Entry = std::pair<std::vector<std::string>, std::shared_ptr<const DryBreakers>>;

  const Tokenizer& tokenizer_;
  Mutex mutex_;
  std::list<Entry> last_used_ GUARDED_BY(mutex_);  // the newest first
};

}  // namespace kvik
