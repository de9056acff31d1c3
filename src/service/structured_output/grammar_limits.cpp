#include "service/structured_output/grammar_limits.h"

#include <fmt/format.h>

#include "constrain/grammar.h"

namespace kvik {

Error exhausted_error(const std::string& param) {
  const constrain::Limits limits;
  return {ErrorCode::kUnsupported,
          fmt::format("the grammar in {} takes more than {} steps of work or {} MiB of memory for "
                      "one token; reduce nested bounded repeats",
                      param, limits.max_work_per_token, limits.max_matching_bytes >> 20),
          param};
}

}  // namespace kvik
