#include "server/operate/live_json.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <iterator>

namespace kvik {
namespace {

// Formatted directly: ten thousand pages as a tree of JSON values would take a hundred times their
// text.
class Writer {
 public:
  explicit Writer(TimePoint start) : start_(start) {}

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void name(std::string_view key) {
    separate();
    add("\"{}\":", key);
  }
  void number(double value) {
    separate();
    add("{:.6g}", value);
  }
  void number(uint64_t value) {
    separate();
    add("{}", value);
  }
  void field(std::string_view key, uint64_t value) {
    name(key);
    number(value);
  }
  void index(std::optional<PageId> page) {
    separate();
    if (page) {
      add("{}", static_cast<uint32_t>(*page));
    } else {
      out_ += "-1";
    }
  }
  void time(TimePoint at) { ms(at - start_); }
  void ms(Duration time) {
    separate();
    add("{:.1f}", to_ms(time));
  }
  void text(std::string_view value) {
    separate();
    const boost::json::string quoted(value.data(), value.size());
    out_ += boost::json::serialize(quoted);
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
  }
  void close(char bracket) { out_ += bracket; }
  std::string take() { return std::move(out_); }

 private:
  void separate() {
    const char last = out_.empty() ? '{' : out_.back();
    if (last != '{' && last != '[' && last != ':') out_ += ',';
  }

  TimePoint start_;
  std::string out_;
};

void add_steps(const LiveView& view, Writer& out) {
  out.name("steps");
  out.open('[');
  for (const LiveStep& step : view.steps) {
    out.number(step.number);
    out.time(step.end);
    out.number(step.record.ms);
    out.number(step.record.planned_ms);
    out.number(uint64_t{step.record.n_prefill_rows});
    out.number(uint64_t{step.record.n_decode_rows});
    out.number(uint64_t{step.record.n_sequences});
    out.number(uint64_t{step.record.n_drafted});
    out.number(uint64_t{step.record.n_accepted});
  }
  out.close(']');
}

void add_sequences(const LiveView& view, Writer& out) {
  out.name("sequences");
  out.open('[');
  for (const LiveSequence& sequence : view.sequences) {
    out.number(static_cast<uint64_t>(sequence.id));
    out.number(static_cast<uint64_t>(sequence.phase));
    for (const uint32_t n : {sequence.n_prompt, sequence.n_found, sequence.n_cached,
                             sequence.n_generated, sequence.max_tokens}) {
      out.number(uint64_t{n});
    }
    out.index(sequence.head);
    out.ms(sequence.age);
  }
  out.close(']');
}

void add_pages(const LiveView& view, Writer& out) {
  out.name("pages");
  out.open('[');
  for (const PageCell& cell : view.pages) {
    out.number(uint64_t{static_cast<uint32_t>(cell.page)});
    out.number(static_cast<uint64_t>(cell.state));
    out.number(uint64_t{cell.group});
    out.number(uint64_t{cell.n_owners});
    out.number(uint64_t{cell.n_tokens});
    out.index(cell.parent);
    const bool is_free = cell.state == PageState::kFree;
    is_free ? out.number(uint64_t{0}) : out.time(cell.history.taken);
    is_free ? out.number(uint64_t{0}) : out.time(cell.history.last_used);
    out.number(uint64_t{(cell.history.is_saved ? 1u : 0u) | (cell.history.is_fetched ? 2u : 0u)});
  }
  out.close(']');
}

void add_histogram(std::string_view key, const Histogram& histogram, Writer& out) {
  out.name(key);
  out.open('{');
  out.name("first");
  out.number(histogram.bound(0));
  out.field("count", histogram.count());
  out.name("sum");
  out.number(histogram.sum());
  out.name("buckets");
  out.open('[');
  for (size_t i = 0; i <= Histogram::kBuckets; ++i) {
    if (histogram.in_bucket(i) == 0) continue;
    out.number(uint64_t{i});
    out.number(histogram.in_bucket(i));
  }
  out.close(']');
  out.close('}');
}

void add_engine(const EngineSnapshot& engine, Writer& out) {
  out.field("waiting", engine.n_waiting);
  out.field("running", engine.n_running);
  out.field("free", engine.pages.free);
  out.field("leased", engine.pages.leased);
  out.field("sealed", engine.pages.sealed);
  out.field("cached", engine.pages.cached);
  out.field("page_bytes", engine.page_bytes);
  out.field("budget_bytes", engine.kv_budget_bytes);
  out.field("step_count", engine.steps);
  out.field("computed_tokens", engine.prompt_tokens);
  out.field("found_tokens", engine.cached_tokens);
  out.field("generated_tokens", engine.generated_tokens);
  out.field("preemptions", engine.preemptions);
  out.field("evictions", engine.evictions);
  out.name("windows");
  out.open('[');
  for (uint32_t g = 0; g < engine.n_groups; ++g) out.number(uint64_t{engine.groups[g].window});
  out.close(']');
  out.name("reserved_bytes");
  out.open('{');
  for (size_t k = 0; k < kMemoryKinds; ++k)
    out.field(name_of(static_cast<MemoryKind>(k)), engine.kv_bytes[k]);
  out.close('}');
  add_histogram("ttft_s", engine.histograms.ttft_s, out);
  add_histogram("itl_s", engine.histograms.itl_s, out);
}

void add_tiers(const AllTierCounters& tiers, Writer& out) {
  out.name("tiers");
  out.open('{');
  for (size_t i = 0; i < kTierKinds; ++i) {
    const TierCounters& tier = tiers[i];
    if (!tier.is_on) continue;
    out.name(to_string(TierKind(i)));
    out.open('{');
    out.field("degraded", tier.is_degraded ? 1 : 0);
    out.field("pages", tier.size.n_pages);
    out.field("bytes", tier.size.n_bytes);
    out.field("written_pages", tier.pages_written);
    out.field("read_pages", tier.pages_read);
    out.field("hit_tokens", tier.hit_tokens);
    out.field("queue_pages", tier.queue_pages);
    out.close('}');
  }
  out.close('}');
}

}  // namespace

std::string live_json(const LiveView& view, const ModelCard& card, TimePoint start) {
  Writer out(start);
  out.open('{');
  out.name("now");
  out.time(view.now);
  out.field("whole", view.is_whole ? 1 : 0);
  if (view.is_whole) {
    out.name("model");
    out.text(card.id.text());
    out.field("context", card.n_ctx_max);
    out.name("backend");
    out.text(card.backend);
  }
  add_engine(view.engine, out);
  add_tiers(view.engine.tiers, out);
  add_steps(view, out);
  add_sequences(view, out);
  add_pages(view, out);
  out.close('}');
  return out.take();
}

}  // namespace kvik
