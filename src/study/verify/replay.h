#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token_id.h"
#include "engine/engine.h"
#include "host/load_model.h"
#include "service/attest/attested_answer.h"

namespace kvik {

// Computes attested answers again: alone, without cached pages, drafts or other sequences. Use from
// one thread.
class Replay {
 public:
  // Takes the model of `loaded` for sequences of up to n_ctx tokens and borrows its backend.
  static Result<std::unique_ptr<Replay>> create(LoadedModel& loaded, uint32_t n_ctx);

  // Computes one of n_choices choices again. Returns the first difference in words, such as "token
  // 17 is 423, the replay has 9"; std::nullopt if everything is equal. Errors: kInvalidArgument if
  // the engine cannot compute the request.
  Result<std::optional<std::string>> verify(const AttestedRequest& request, uint32_t choice,
                                            uint32_t n_choices, const AttestedChoice& answer);

 private:
  Replay() = default;

  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const Adapter> adapter_;  // null if there is none
  uint64_t n_verified_ = 0;
};

// Returns the most tokens that a sequence of the answer needs.
uint64_t longest_sequence(const AttestedAnswer& answer);

}  // namespace kvik
