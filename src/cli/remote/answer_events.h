#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

// Translates the events of a streamed answer of OpenAI's API into chunks of a CompletionSink. The
// clock of the times is that of the client: the time to the first token includes the network.
class AnswerEvents {
 public:
  // begin: time at which the request was sent.
  explicit AnswerEvents(TimePoint begin) : begin_(begin) {}

  // Reads the data of an event. Calls on_chunk() if it has a part of the answer. Errors: the error
  // that the event reports; kCorrupt if it is not JSON.
  Result<void> read(std::string_view data, TimePoint now, CompletionSink& sink);

  // Returns whether the stream has ended as it should.
  bool is_complete() const { return is_done_ && has_finish_; }
  const Usage& usage() const { return usage_; }

 private:
  const TimePoint begin_;
  bool has_text_ = false;    // a part of the answer arrived
  bool has_finish_ = false;  // the reason of its end arrived
  bool is_done_ = false;     // [DONE] arrived
  TimePoint first_at_ = {};  // time of the first part
  Usage usage_;
};

}  // namespace kvik
